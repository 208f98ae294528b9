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
disk_needed_gb=8

fail() {
    printf 'isoradix: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}

check_release() {
    case $sglang in
    0.5.22 | 0.5.23) ;;
    *) fail "SGLANG is '$sglang'; the plug-in supports 0.5.22 and 0.5.23" "make test-sglang SGLANG=0.5.23" ;;
    esac
}

check_machine() {
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "SGLang's Rust tree core comes compiled for Linux on x86-64 only, this is $(uname -sm)" \
            "the tests without SGLang run anywhere: make test"
    local free_gb
    free_gb=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free_gb" -ge $disk_needed_gb ] ||
        fail "the SGLang environment needs $disk_needed_gb GB of disk, $free_gb GB are free" \
            "make room on the disk of this folder"
}

check_python() {
    "$venv/bin/python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
        fail "SGLang $sglang comes for Python 3.11 to 3.13, $venv has $("$venv/bin/python" --version)" \
            "install one of them, then: rm -r $venv"
}

newer_than() { # FILE STAMP
    [ ! -f "$2" ] || [ -n "$(find "$1" -newer "$2" -type f -not -path '*/__pycache__/*' -print -quit)" ]
}

# SGLang's own list asks for some twenty packages of GPU kernels; the lock leaves them out, so nothing resolves here.
install() { tools/setup.sh install "$venv" "$1" --no-deps "${@:2}"; }

setup_sglang() {
    local stamp=$venv/.stamp-$sglang
    if ! newer_than "$requirements" "$stamp"; then return; fi
    check_machine
    echo "setting $venv up: some 3 GB of downloads the first time"
    PYTHON="python3.11 python3.12 python3.13 python3" tools/setup.sh venv "$venv"
    check_python
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

step=${1:-}
[ -z "$step" ] || shift
case $step in
setup) setup ;;
test) setup && "$venv/bin/python" -m pytest tests/sglang "$@" ;;
side-by-side) setup && "$venv/bin/python" -m tests.sglang.side_by_side "$@" ;;
engine) setup && "$venv/bin/python" -m tests.sglang.engine "$@" ;;
*) fail "usage: tools/sglang.sh setup|test|side-by-side|engine ..." ;;
esac
