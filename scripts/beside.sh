#!/bin/sh
# Slow requests (30 ms each, 100 connections, 300 workers) beside fast ones as fast as they go: beside.sh [SECONDS [ROUNDS]].
# The ideal is 100 / 30 ms, of which source C reached 99.4 %. Both loads share a core, and the slow one has it whenever it wants
# (chrt, for which one must be root), or what it waits for the other load would be taken for the server's.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh

seconds=${1:-5}
rounds=${2:-3}
scripts/setup.sh cc
prepare

taskset -c 0 "$plimsoll" serve "$dir" --listen 127.0.0.1:0 --model reuseport-pool --workers 300 --workloads 2>"$dir/log" &
server=$!
serving "$server" "$dir/log"

bench() { # PATH CONNECTIONS SECONDS [COMMAND...]: a load that may not have an error, by a command that runs it
    path=$1 connections=$2 time=$3
    shift 3
    "$@" "$plimsoll" bench "$url$path" -c "$connections" -d "${time}s" --warmup 1s --threads 1 --cpus 1 --json "$dir/$path" \
        --threshold 'errors<0%' >"$dir/$path.txt" 2>&1 || { cat "$dir/$path.txt" >&2; return 1; }
}
rate() { sed -n 's/.*"requests_per_second": \([0-9.]*\),*/\1/p' "$dir/$1" | head -1; }

echo '| fast connections | fast per second | slow per second | of the ideal |'
echo '|---:|---:|---:|---:|'
for _ in $(seq "$rounds"); do
    for fast in 0 8 16 64; do
        if [ "$fast" -gt 0 ]; then
            # Longer than the slow load, which is to have it beside itself all the while.
            bench fast "$fast" "$((seconds + 1))" &
            loads=$!
        fi
        bench slow 100 "$seconds" chrt -f 1
        [ "$fast" = 0 ] || wait "$loads"
        loads=
        awk -v fast="$fast" -v fast_rate="$([ "$fast" = 0 ] || rate fast)" -v slow="$(rate slow)" \
            'BEGIN { printf "| %d | %.0f | %.0f | %.4f |\n", fast, fast_rate, slow, slow * 0.03 / 100 }'
    done
done
