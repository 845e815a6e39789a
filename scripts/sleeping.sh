#!/bin/sh
# Work that sleeps, by workers: throughput against the most that can be had, which is W / T, the most that W threads can do
# which sleep for T each time, or what the one core that the server has allows, where that is less. What it allows goes by the
# server's own time: interrupts, of which each sleep has one, and what the host's host takes are not in it. Fails where less than
# 0.98 of that is reached.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh

scripts/setup.sh cc curl
prepare

cell() { # WORKERS SLEEP_IN_US: one line of the table
    : >"$dir/log" # or what the last server said would be read
    taskset -c 0 "$plimsoll" serve "$dir" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --model reactor-pool --workers "$1" --work "$2us" \
        2>"$dir/log" &
    server=$!
    serving "$server" "$dir/log"
    # Enough connections that no worker wants for work.
    "$plimsoll" bench "$url" -c $(($1 * 2 + 32)) -d 4s --warmup 1s --threads 1 --cpus 1 --pid "$server" \
        --json "$dir/result" >"$dir/out" 2>&1 || { cat "$dir/out" >&2; exit 1; }
    curl -s "${admin}metrics" >"$dir/metrics"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
    metric() { sed -n "s/^$1 //p" "$dir/metrics"; }
    server_us() { sed -n '/"server": {/,$s/.*"cpu_us_per_request": \([0-9.]*\),*/\1/p' "$dir/result" | head -1; }
    awk -v workers="$1" -v us="$2" -v rate="$(figure "$dir/result" requests_per_second)" -v cpu="$(server_us)" \
        -v sum="$(metric plimsoll_work_seconds_sum)" -v count="$(metric plimsoll_work_seconds_count)" 'BEGIN {
            threads = workers / us * 1e6
            core = 1e6 / cpu
            most = threads < core ? threads : core
            printf "| %d us | %d | %.0f | %.0f | %.0f | %.3f | %.1f us |\n", us, workers, rate, threads, core, rate / most,
                sum / count * 1e6
        }' | tee -a "$dir/table"
}

echo '| sleep | workers | per second | W / T | one core allows | of the less | slept |'
echo '|---|---:|---:|---:|---:|---:|---:|'
for us in 100 200 1000 30000; do
    for workers in 1 2 4 16 64 300; do
        # More than the host can carry whatever it waits for.
        [ $((workers * 1000000 / us)) -gt 100000 ] || cell "$workers" "$us"
    done
done
awk -F'|' '$7 < 0.98 { missed++ } END { if (missed) { printf "sleeping: %d below 0.98\n", missed; exit 1 } }' "$dir/table"
