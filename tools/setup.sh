#!/usr/bin/env bash
# The set-up steps behind the Makefile. Each one either does its work or says in plain words what is missing.
#
#   tools/setup.sh venv DIR                 a virtual environment, from the first python new enough
#   tools/setup.sh install DIR WHAT ARG...  python packages into it (WHAT: named in the message when it fails)
#   tools/setup.sh rust DIR                 nothing, if Rust and a C compiler are there
#   tools/setup.sh extension DIR            the compiled module, editable, into it
#   tools/setup.sh wheel DIR                the abi3 wheel, into dist/
#   tools/setup.sh torch DIR                torch, unless it imports there already
set -eu
. "$(dirname "$0")/fail.sh"

python_min=11 # the minor version: 3.11 is where the buffer protocol joins the limited API

need_network() {
    fail "$1 failed (the output above says why)" \
        "this step downloads packages and needs a network; once it is done, make works without one"
}

is_python() {
    "$1" -c "import sys; sys.exit(sys.version_info < (3, $python_min))" >/dev/null 2>&1
}

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        # the interpreter itself, not a version manager's shim, which may answer differently elsewhere
        if is_python "$name"; then "$name" -c 'import sys; print(sys.executable)' && return; fi
    done
    found=$(${PYTHON:-python3} --version 2>&1) || found="none"
    fail "python 3.$python_min or newer is needed, found: $found" \
        "install it, or name one that you have: make PYTHON=/path/to/python3"
}

has_uv() {
    command -v uv >/dev/null 2>&1 && uv --version >/dev/null 2>&1
}

make_venv() {
    need_rust # before anything is downloaded
    if is_python "$1/bin/python"; then return; fi
    python=$(find_python)
    if has_uv; then
        uv venv --quiet --clear --python "$python" "$1" && return
    fi
    "$python" -m venv "$1" || fail "$python cannot make a virtual environment" \
        "install its venv module (on Debian and Ubuntu: apt install python3-venv), or install uv"
    "$1/bin/python" -m pip install --quiet --upgrade 'pip>=25.1' || need_network "upgrading pip"
}

install() {
    venv=$1 what=$2
    shift 2
    if has_uv; then
        uv pip install --quiet --python "$venv/bin/python" "$@" || need_network "installing $what"
    else
        "$venv/bin/python" -m pip install --quiet "$@" || need_network "installing $what"
    fi
}

rust_version_needed() {
    sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml
}

need_rust() {
    command -v cargo >/dev/null 2>&1 || fail "cargo, the Rust build tool, is not on the PATH" \
        "install Rust $(rust_version_needed) or newer with rustup or your system's packages, then open a new shell"
    found=$(rustc --version 2>&1 | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    oldest=$(printf '%s\n%s\n' "$(rust_version_needed)" "$found" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)
    [ -n "$found" ] && [ "$oldest" = "$(rust_version_needed)" ] ||
        fail "Rust $(rust_version_needed) or newer is needed, found: ${found:-none}" "with rustup: rustup update stable"
    command -v cc >/dev/null 2>&1 || fail "no C compiler: Rust links with one, and there is no 'cc' on the PATH" \
        "on Debian and Ubuntu: apt install gcc libc6-dev; on Fedora: dnf install gcc; on macOS: xcode-select --install"
}

need_crates() {
    cargo fetch --quiet || need_network "downloading the Rust crates"
}

with_maturin() {
    venv=$1
    shift
    VIRTUAL_ENV=$(cd "$venv" && pwd) PATH="$venv/bin:$PATH" "$venv/bin/maturin" "$@"
}

build_extension() {
    need_rust
    need_crates
    uv_flag=$(has_uv && echo --uv || true)
    # shellcheck disable=SC2086 # an empty flag must vanish
    with_maturin "$1" develop --release $uv_flag --extras cli --group build ||
        fail "the extension did not build or install (the output above says why)"
}

build_wheel() {
    need_rust
    need_crates
    rm -rf dist
    with_maturin "$1" build --release --out dist || fail "the wheel did not build (the output above says why)"
}

install_torch() {
    if "$1/bin/python" -c 'import torch' >/dev/null 2>&1; then return; fi
    echo "installing torch (large): ranks hold KV in its tensors and agree over its gloo"
    echo "TORCH=no leaves it out, of 'make demo' the ranks, of 'make test' the tests that need it"
    install "$1" torch 'torch>=2.3'
}

step=${1:-}
[ $# -ge 2 ] || fail "usage: tools/setup.sh venv|install|torch|rust|extension|wheel DIR ..."
shift
case $step in
venv) make_venv "$@" ;;
install) install "$@" ;;
extension) build_extension "$@" ;;
rust) need_rust && need_crates ;;
wheel) build_wheel "$@" ;;
torch) install_torch "$@" ;;
*) fail "no step named '$step'" ;;
esac
