#!/bin/sh
# Slow requests (30 ms each, 100 connections, 300 workers) beside fast ones as fast as they go: beside.sh [SECONDS [ROUNDS]].
# The ideal is 100 / 30 ms, of which source C reached 99.4 %. Both loads share a core, and the slow one has it whenever it wants
# (chrt, for which one must be root), or what it waits for the other load would be taken for the server's. Fails where less than
# 0.994 is reached.
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

flags="-q --warmup 1s --threads 1 --cpus 1 --threshold errors<0%"

echo '| fast connections | fast per second | slow per second | of the ideal |'
echo '|---:|---:|---:|---:|'
for _ in $(seq "$rounds"); do
    for fast in 0 8 16 64; do
        rate=0
        if [ "$fast" -gt 0 ]; then
            # Longer than the slow load, which is to have it beside itself all the while.
            # shellcheck disable=SC2086 # the flags are words
            "$plimsoll" bench "${url}fast" -c "$fast" -d "$((seconds + 1))s" $flags --json "$dir/fast" >/dev/null &
            loads=$!
        fi
        # shellcheck disable=SC2086 # the flags are words
        chrt -f 1 "$plimsoll" bench "${url}slow" -c 100 -d "${seconds}s" $flags --json "$dir/slow" >/dev/null
        if [ "$fast" -gt 0 ]; then
            wait "$loads"
            loads=
            rate=$(figure "$dir/fast" requests_per_second)
        fi
        awk -v fast="$fast" -v rate="$rate" -v slow="$(figure "$dir/slow" requests_per_second)" \
            'BEGIN { printf "| %d | %.0f | %.0f | %.4f |\n", fast, rate, slow, slow * 0.03 / 100 }' | tee -a "$dir/table"
    done
done
awk -F'|' '$5 < 0.994 { missed++ } END { if (missed) { printf "beside: %d below 0.994 of the ideal\n", missed; exit 1 } }' "$dir/table"
