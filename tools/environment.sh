# SGLang in an environment of its own: what tools/sglang.sh and benches/peers/run.sh share.
#
# To be sourced by a script that runs in the project's root and has named the folder, `venv`, and the release, `sglang`.

. tools/fail.sh

disk_needed_gb=8

check_machine() { # INSTEAD: what runs on any machine
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "SGLang's Rust tree core comes compiled for Linux on x86-64 only, this is $(uname -sm)" "$1"
    local free_gb
    free_gb=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free_gb" -ge $disk_needed_gb ] ||
        fail "$venv needs $disk_needed_gb GB of disk, $free_gb GB are free" "make room on the disk of this folder"
}

check_python() {
    "$venv/bin/python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
        fail "SGLang $sglang comes for Python 3.11 to 3.13, $venv has $("$venv/bin/python" --version)" \
            "install one of them, then: rm -r $venv"
}

make_environment() { # INSTEAD: as above
    check_machine "$1"
    echo "setting $venv up: some 3 GB of downloads the first time"
    PYTHON="python3.11 python3.12 python3.13 python3" tools/setup.sh venv "$venv"
    check_python
}
