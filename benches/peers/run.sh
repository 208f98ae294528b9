#!/usr/bin/env bash
# isoradix beside SGLang, in an environment of its own (.venv-peers, about 6 GB: torch brings its CUDA libraries).
#
#   benches/peers/run.sh setup           the environment, once
#   benches/peers/run.sh bench ARG...    the comparison (ARG: see suite.py)
#   benches/peers/run.sh test ARG...     the differential test (ARG: for pytest)
#
# The compiled module must be there already; `make bench-peers` and `make test-peers` see to it.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.venv-peers
sglang=0.5.23
requirements=benches/peers/requirements.txt
. tools/environment.sh

setup() {
    if [ -f "$venv/.stamp" ] && [ "$venv/.stamp" -nt "$requirements" ] && [ "$venv/.stamp" -nt "$0" ]; then return; fi
    make_environment "the tests and benches without peers run anywhere: make test, make bench"
    tools/setup.sh install "$venv" "the peers' requirements" -r "$requirements"
    tools/setup.sh install "$venv" "SGLang" --no-deps "sglang==$sglang"
    touch "$venv/.stamp"
}

check_extension() {
    PYTHONPATH=python "$venv/bin/python" -c 'import isoradix' 2>/dev/null ||
        fail "isoradix does not import here" "build it first: make bench-peers and make test-peers do"
}

run() { PYTHONPATH=python "$venv/bin/python" -m "$@"; }

step=${1:-}
[ -z "$step" ] || shift
case $step in
setup) setup ;;
bench) setup && check_extension && run benches.peers.suite "$@" ;;
test) setup && check_extension && run pytest tests/peers "$@" ;;
*) fail "usage: benches/peers/run.sh setup|bench|test ..." ;;
esac
