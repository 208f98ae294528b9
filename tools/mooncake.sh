#!/usr/bin/env bash
# A Mooncake cluster on this machine for as long as a command runs.
#
#   tools/mooncake.sh VENV COMMAND...    COMMAND is given one argument more: STORAGE=mooncake://127.0.0.1:PORT
#
# Master and owner are the programs of the package that is installed in VENV.
set -eu
cd "$(dirname "$0")/.."
. tools/fail.sh

venv=$1
shift
memory=2GB
patience_s=30
folder=$(mktemp -d)

set -m # each of them in a group of its own, so that it ends with all that it has started
started=()
end() {
    for process in "${started[@]}"; do kill -KILL -- "-$process" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap end EXIT

start() { # NAME PORT ARG...: until it listens
    local name=$1 port=$2 process
    shift 2
    MC_LOG_LEVEL=ERROR "$venv/bin/mooncake_$name" "$@" >"$folder/$name.log" 2>&1 &
    process=$!
    started+=("$process")
    disown "$process" # its end is no news
    for _ in $(seq $((patience_s * 10))); do
        if (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
        kill -0 "$process" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 5 "$folder/$name.log" >&2
    fail "mooncake_$name does not start (the output above says why)" \
        "it needs libraries of the system (on Debian and Ubuntu: apt install libibverbs1 libnuma1 libcurl4)"
}

for name in master client; do
    [ -x "$venv/bin/mooncake_$name" ] || fail "Mooncake is not installed in $venv: there is no mooncake_$name" \
        "tools/setup.sh install $venv Mooncake 'mooncake-transfer-engine-non-cuda>=0.3.13' (for Linux on x86-64)"
done
read -r master client metrics < <("$venv/bin/python" -c '
import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in free))')
start master "$master" --rpc_address=127.0.0.1 --rpc_port="$master" --metrics_port="$metrics"
start client "$client" --master_server_address="127.0.0.1:$master" --metadata_server=P2PHANDSHAKE --host=127.0.0.1 \
    --port="$client" --global_segment_size="$memory"
MC_LOG_LEVEL=ERROR "$@" "STORAGE=mooncake://127.0.0.1:$master"
