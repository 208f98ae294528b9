#!/usr/bin/env bash
# The real SGLang engine on a CPU, in an environment of its own (.venv-sglang, about 6 GB: torch brings its CUDA libraries).
#
#   tools/sglang.sh setup           the environment, once, and the wheel of dist/ into it
#   tools/sglang.sh test ARG...     the tests of tests/sglang (ARG: for pytest)
#   tools/sglang.sh side-by-side    both caches under the same faults (see tests/sglang/side_by_side.py)
#   tools/sglang.sh engine ARG...   one engine, or many (ARG: see tests/sglang/engine.py)
#
# SGLANG=0.5.22 takes that release instead; SGLANG_VENV names another folder for the environment. The wheel must be there
# already; `make test-sglang` sees to it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${SGLANG_VENV:-.venv-sglang}
sglang=${SGLANG:-0.5.23}
requirements=tests/sglang/requirements.txt
support=tests/sglang/cpu_support
. tools/environment.sh

check_release() {
    case $sglang in
    0.5.22 | 0.5.23) ;;
    *) fail "SGLANG is '$sglang'; the plug-in supports 0.5.22 and 0.5.23" "make test-sglang SGLANG=0.5.23" ;;
    esac
}

newer_than() { # FILE STAMP
    [ ! -f "$2" ] || [ -n "$(find "$1" -newer "$2" -type f -not -path '*/__pycache__/*' -print -quit)" ]
}

# SGLang's own list asks for some twenty packages of GPU kernels; the lock leaves them out, so nothing resolves here.
install() { tools/setup.sh install "$venv" "$1" --no-deps "${@:2}"; }

setup_sglang() {
    local stamp=$venv/.stamp-$sglang
    if ! newer_than "$requirements" "$stamp"; then return; fi
    make_environment "the tests without SGLang run anywhere: make test"
    install "SGLang's requirements" -r "$requirements"
    [ "$sglang" = 0.5.23 ] || install "SGLang $sglang" "sglang==$sglang"
    rm -f "$venv"/.stamp-*
    touch "$stamp"
}

setup_support() { # from a copy: a build leaves files beside its sources
    local stamp=$venv/.stamp-support copy
    if ! newer_than "$support" "$stamp"; then return; fi
    copy=$(mktemp -d)
    cp -R "$support" "$copy/"
    install "what stands in for a GPU" --no-build-isolation --force-reinstall "$copy/$(basename "$support")"
    rm -r "$copy"
    touch "$stamp"
}

setup_wheel() {
    local stamp=$venv/.stamp-wheel wheel
    wheel=$(find dist -name 'isoradix-*.whl' 2>/dev/null | head -n 1)
    [ -n "$wheel" ] || fail "there is no wheel in dist" "build it first: make wheel; make test-sglang does"
    if ! newer_than "$wheel" "$stamp"; then return; fi
    install "the wheel" --force-reinstall "$wheel"
    touch "$stamp"
}

setup() {
    check_release
    setup_sglang
    setup_support
    setup_wheel
}

in_environment() { # COMMAND...: ninja is there, for what SGLang compiles when it is first asked
    setup
    PATH="$(realpath "$venv")/bin:$PATH" "$venv/bin/python" -m "$@"
}

step=${1:-}
[ -z "$step" ] || shift
case $step in
setup) setup ;;
test) in_environment pytest tests/sglang "$@" ;;
side-by-side) in_environment tests.sglang.side_by_side "$@" ;;
engine) in_environment tests.sglang.engine "$@" ;;
*) fail "usage: tools/sglang.sh setup|test|side-by-side|engine ..." ;;
esac
