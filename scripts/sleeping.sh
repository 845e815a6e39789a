#!/bin/sh
# Work that sleeps, by workers: throughput against W / T, the most that W threads can do which sleep for T each time.
# The server's processor time is beside it: where it nears a core, the processor is the bound, and not the threads.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh

scripts/setup.sh cc curl
cargo build --release --locked
plimsoll=${CARGO_TARGET_DIR:-target}/release/plimsoll
dir=$(mktemp -d)
echo hello >"$dir/index.html"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT

cell() { # WORKERS SLEEP_IN_US: one line of the table
    "$plimsoll" serve "$dir" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --model reactor-pool --workers "$1" --work "$2us" \
        2>"$dir/log" &
    server=$!
    serving "$server" "$dir/log"
    # Enough connections that no worker wants for work.
    "$plimsoll" bench "$url" -c $(($1 * 2 + 32)) -d 4s --warmup 1s --threads 1 --json "$dir/result" >"$dir/out" 2>&1
    curl -s "${admin}metrics" >"$dir/metrics"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
    number() { sed -n "s/^$1 //p" "$dir/metrics"; }
    awk -v workers="$1" -v us="$2" -v rate="$(sed -n 's/.*"requests_per_second": \([0-9.]*\),*/\1/p' "$dir/result" | head -1)" \
        -v cpu="$(number process_cpu_seconds_total)" -v sum="$(number plimsoll_work_seconds_sum)" \
        -v count="$(number plimsoll_work_seconds_count)" 'BEGIN {
            ideal = workers / us * 1e6
            printf "| %d us | %d | %.0f | %.0f | %.3f | %.1f us | %.0f %% |\n", us, workers, rate, ideal, rate / ideal,
                sum / count * 1e6, cpu / 5 * 100
        }'
}

echo '| sleep | workers | per second | W / T | ratio | slept | of a core |'
echo '|---|---|---|---|---|---|---|'
for us in 100 200 1000 30000; do
    for workers in 1 2 4 16 64 300; do
        # More than the host can carry whatever it waits for.
        [ $((workers * 1000000 / us)) -gt 100000 ] || cell "$workers" "$us"
    done
done
