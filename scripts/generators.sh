#!/bin/bash
# Load generators against the floor, the server on one core and the generator on the other: requests per second and the
# generator's own processor time per request, rounds in turn, medians: generators.sh [ROUNDS [SECONDS]].
# wrk, h2load and ab are installed; oha and bombardier take part where they are there. With a connection per request the
# server is Plimsoll's own on one reactor, since the floor, which looks at no request, does not know when to close; ab
# takes part there only: it speaks HTTP/1.0, and the floor never tells it that the connection stays.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5}
seconds=${2:-3}
scripts/setup.sh cc curl wrk nghttp2-client apache2-utils
cargo build --release --locked
bin=${CARGO_TARGET_DIR:-target}/release
dir=$(mktemp -d)
port=8098
taskset -c 0 "$bin/plimsoll-floor" --port $port --bytes 1024 >/dev/null 2>&1 &
floor=$!
mkdir "$dir/site"
head -c 1024 /dev/zero | tr '\0' x >"$dir/site/index.html"
closing=$((port + 1))
taskset -c 0 "$bin/plimsoll" serve "$dir/site" --model reactor --listen 127.0.0.1:$closing >/dev/null 2>&1 &
server=$!
trap 'kill $floor $server 2>/dev/null || true; rm -rf "$dir"' EXIT
url=http://127.0.0.1:$port/
closing_url=http://127.0.0.1:$closing/
until curl -s -o /dev/null "$closing_url"; do sleep 0.1; done
until curl -s -o /dev/null "$url"; do sleep 0.1; done

# Prints NAME CONNECTIONS RATE CPU_US: the pattern finds the number of requests in what the generator says.
try() { # NAME CONNECTIONS PATTERN COMMAND...
    local name=$1 connections=$2 pattern=$3
    shift 3
    command -v "$1" >/dev/null || return 0
    TIMEFORMAT='%R %U %S'
    { time taskset -c 1 "$@" >"$dir/out" 2>&1 || true; } 2>"$dir/time"
    local requests
    requests=$(sed -nE "s/$pattern/\\1/p" "$dir/out" | head -1)
    if [ -z "$requests" ]; then
        echo "generators: $name said nothing to go by:" >&2
        tail -5 "$dir/out" >&2
        return 0
    fi
    read -r real user system <"$dir/time"
    awk "BEGIN { printf \"%s %s %.0f %.2f\\n\", \"$name\", \"$connections\", $requests / $real, ($user + $system) * 1e6 / $requests }"
}

for round in $(seq "$rounds"); do
    for c in 64 1000; do
        try plimsoll $c '^  requests +([0-9]+) .*' "$bin/plimsoll" bench "$url" -c $c -d "${seconds}s" --threads 1 -q
        try wrk $c '^ *([0-9]+) requests in .*' wrk -t1 -c$c -d"${seconds}s" --latency "$url"
        try h2load $c '.* ([0-9]+) done.*' h2load --h1 -t1 -c$c -D "$seconds" "$url"
        try oha $c '.*\[200\] +([0-9]+) responses.*' oha --no-tui -c $c -z "${seconds}s" "$url"
        try bombardier $c '.*2xx - ([0-9]+),.*' bombardier -c $c -d "${seconds}s" "$url"
    done
    # A connection per request.
    c=64
    try plimsoll close '^  requests +([0-9]+) .*' "$bin/plimsoll" bench "$closing_url" -c $c -d "${seconds}s" --threads 1 --close -q
    try wrk close '^ *([0-9]+) requests in .*' wrk -t1 -c$c -d"${seconds}s" --latency -H 'Connection: close' "$closing_url"
    try ab close '^Complete requests: +([0-9]+)' ab -c $c -t "$seconds" -n 10000000 "$closing_url"
    try oha close '.*\[200\] +([0-9]+) responses.*' oha --no-tui --disable-keepalive -c $c -z "${seconds}s" "$closing_url"
    try bombardier close '.*2xx - ([0-9]+),.*' bombardier -c $c -d "${seconds}s" -H 'Connection: close' "$closing_url"
done | tee "$dir/all"

printf '\n| generator | connections | requests/s | client CPU us per request |\n|---|---:|---:|---:|\n'
. scripts/median.sh
for c in 64 1000 close; do
    for name in $(awk '{ print $1 }' "$dir/all" | awk '!seen[$0]++'); do
        printf '| %s | %s | %s | %s |\n' "$name" $c "$(median "$dir/all" 3 "$name" $c)" "$(median "$dir/all" 4 "$name" $c)"
    done
done
# Rate against the budget: at kept connections that of wrk, with a connection per request that of the best of the others.
against() { # CONNECTIONS NAME
    awk "BEGIN { ratio = $(median "$dir/all" 3 plimsoll "$1") / $(median "$dir/all" 3 "$2" "$1")
        printf \"generators: connections %s: %.2f x the rate of %s; at least 1.2 x is the budget\n\", \"$1\", ratio, \"$2\"
        exit ratio < 1.2 }"
}
missed=0
against 64 wrk || missed=1
against 1000 wrk || missed=1
for name in $(awk '$2 == "close" && $1 != "plimsoll" { print $1 }' "$dir/all" | sort -u); do
    against close "$name" || missed=1
done
# And less of the client's processor than any of them takes.
for c in 64 1000 close; do
    own=$(median "$dir/all" 4 plimsoll $c)
    for name in $(awk -v c=$c '$2 == c && $1 != "plimsoll" { print $1 }' "$dir/all" | sort -u); do
        awk "BEGIN { exit !($own < $(median "$dir/all" 4 "$name" $c)) }" || { echo "generators: connections $c: $name takes less"; missed=1; }
    done
done
exit $missed
