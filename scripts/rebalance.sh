#!/bin/sh
# Long-lived connections of which every second one has work, so that one of two reactors is given all of it: how busy each
# reactor is with connections that stay and with connections that move. Prints a table; rebalance.sh [TIME]
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh
time=${1:-5}
scripts/setup.sh cc curl
prepare

until_accepted() { # N: so many connections have come
    until curl -s "${admin}metrics" | awk -v all="$1" '/^plimsoll_connections_accepted_total/ { sum += $2 } END { exit sum < all }'; do
        sleep 0.05
    done
}

# In a line: seconds since the start, seconds that each reactor was busy, connections that left one.
look() {
    curl -s "${admin}metrics" | awk '/^plimsoll_uptime_seconds / { uptime = $NF }
        /^plimsoll_loop_busy_seconds_total[{]/ { busy = busy " " $NF }
        /^plimsoll_connections_moved_out_total[{]/ { moved += $NF }
        END { print uptime busy, moved + 0 }'
}

printf '| model | rebalance | busiest %% | idlest %% | moved | worst mean us | failed |\n|---|---|---:|---:|---:|---:|---:|\n'
for model in multi-reactor proactor; do
    for rebalance in off on; do
        : >"$dir/log" # or what the last server said would be read
        "$plimsoll" serve "$dir" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --workloads --model "$model" --reactors 2 \
            --spread acceptor --rebalance "$rebalance" 2>"$dir/log" &
        server=$!
        serving "$server" "$dir/log"
        loads=
        # The acceptor gives them out in turn: one with work, one that hardly asks for anything.
        for at in 1 2 3 4 5 6; do
            "$plimsoll" bench "${url}work?spin=500us" -c 1 --threads 1 --rate 300 -d 1h --warmup 5s -q \
                --json "$dir/busy-$at" >/dev/null 2>&1 &
            loads="$loads $!"
            until_accepted $((2 * at - 1))
            "$plimsoll" bench "${url}" -c 1 --threads 1 --rate 1 -d 1h >/dev/null 2>&1 &
            loads="$loads $!"
            until_accepted $((2 * at))
        done
        # What has to move has time to.
        sleep 2
        look >"$dir/looks"
        sleep "$time"
        look >>"$dir/looks"
        # shellcheck disable=SC2086
        kill -INT $loads 2>/dev/null || true
        # shellcheck disable=SC2086
        wait $loads || true
        kill "$server"
        wait "$server"
        shares=$(awk '{ for (i = 2; i < NF; i++) { if (NR == 2) print 100 * ($i - was[i]) / ($1 - was[1]); was[i] = $i } was[1] = $1 }' "$dir/looks" | sort -n)
        # The first number of that name within a part of each result; or all of the part.
        numbers() {
            for at in 1 2 3 4 5 6; do
                sed -n "/\"$1\": {/,/}/s/.*\"$2\": *\([0-9.]*\).*/\1/p" "$dir/busy-$at"
            done
        }
        mean=$(numbers response_time_us mean | sort -n | tail -n 1)
        failed=$(numbers errors '[a-z_]*' | awk '{ sum += $1 } END { print sum + 0 }')
        printf '| %s | %s | %.0f | %.0f | %s | %s | %s |\n' "$model" "$rebalance" "$(echo "$shares" | tail -n 1)" \
            "$(echo "$shares" | head -n 1)" "$(tail -n 1 "$dir/looks" | awk '{ print $NF }')" "${mean%.*}" "$failed"
        server=
        loads=
    done
done
