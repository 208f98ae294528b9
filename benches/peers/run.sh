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
sglang=sglang==0.5.23
requirements=benches/peers/requirements.txt
disk_needed_gb=8

fail() {
    printf 'isoradix: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}

check_machine() {
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "SGLang's Rust tree core comes compiled for Linux on x86-64 only, this is $(uname -sm)" \
            "the tests and benches without peers run anywhere: make test, make bench"
    local free_gb
    free_gb=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free_gb" -ge $disk_needed_gb ] ||
        fail "the peers environment needs $disk_needed_gb GB of disk, $free_gb GB are free" \
            "make room on the disk of this folder"
}

check_python() {
    "$venv/bin/python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
        fail "$sglang comes for Python 3.11 to 3.13, $venv has $("$venv/bin/python" --version)" \
            "install one of them, then: rm -r $venv"
}

setup() {
    if [ -f "$venv/.stamp" ] && [ "$venv/.stamp" -nt "$requirements" ] && [ "$venv/.stamp" -nt "$0" ]; then return; fi
    check_machine
    echo "setting $venv up: some 3 GB of downloads the first time"
    PYTHON="python3.11 python3.12 python3.13 python3" tools/setup.sh venv "$venv"
    check_python
    tools/setup.sh install "$venv" "the peers' requirements" -r "$requirements"
    tools/setup.sh install "$venv" "SGLang" --no-deps "$sglang"
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
