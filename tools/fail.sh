# How a script ends that cannot go on: what is wrong, and what helps, a line each. To be sourced.

fail() { # WHAT HINT...
    printf 'isoradix: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}
