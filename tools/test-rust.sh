#!/usr/bin/env bash
# The core's and the simulator's tests; the last ones plant mistakes in the core, and want them caught. The binding is left
# out: an extension module does not link outside of Python, and is tested from there.
set -eu
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --exclude isoradix-py "$@"
    cargo test --quiet --workspace --exclude isoradix-py --doc
else
    cargo test --workspace --exclude isoradix-py "$@"
fi
cargo test --quiet --package isoradix-sim --features planted-defects --test defects
