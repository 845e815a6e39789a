#!/bin/sh
# A few heavy connections among many light ones: what each way of spreading does to the light ones' tail. Four reactors
# without workers, from which no connection moves; two connections whose requests each hold a reactor up for 5 ms, and
# eight clients that open a connection for each quick request. Prints a table; skew.sh [TIME]
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh
time=${1:-5s}
prepare

printf '| spread | balance | light requests/s | p50 us | p90 us | p99 us |\n|---|---|---:|---:|---:|---:|\n'
for way in "acceptor round-robin" "acceptor least-connections" "acceptor least-busy" "acceptor two-choices" \
    "reuseport -" "shared -"; do
    spread=${way% *}
    balance=${way#* }
    flags="--model multi-reactor --reactors 4 --workloads --rebalance off --spread $spread"
    [ "$balance" = - ] || flags="$flags --balance $balance"
    : >"$dir/log" # or what the last server said would be read
    # shellcheck disable=SC2086 # the flags are words
    "$plimsoll" serve "$dir" --listen 127.0.0.1:0 $flags 2>"$dir/log" &
    server=$!
    serving "$server" "$dir/log"
    "$plimsoll" bench "${url}work?sleep=5ms" -c 2 -d 1h --threads 1 >/dev/null 2>&1 &
    loads=$!
    sleep 0.5
    "$plimsoll" bench "${url}fast" -c 8 -d "$time" --threads 1 --close --json "$dir/out.json" >/dev/null 2>&1
    kill "$loads" "$server"
    wait "$loads" "$server" 2>/dev/null || true
    loads= server=
    printf '| %s | %s | %.0f | %s | %s | %s |\n' "$spread" "$balance" "$(figure "$dir/out.json" requests_per_second)" \
        "$(figure "$dir/out.json" p50)" "$(figure "$dir/out.json" p90)" "$(figure "$dir/out.json" p99)"
done
