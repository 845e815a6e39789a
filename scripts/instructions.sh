#!/bin/sh
# Instructions of the server's own code for a request for a cached page over a kept connection: instructions.sh [SERVE FLAGS].
# Counted by valgrind, so that a busy host does not matter; the difference of two loads leaves out what starting takes.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh

scripts/setup.sh cc valgrind
prepare
head -c 1024 /dev/zero | tr '\0' x >"$dir/1k.html"

count() { # REQUESTS SERVE_FLAGS...: the instructions of a server that answers so many, in $instructions
    requests=$1
    shift
    : >"$dir/log" # or what the last server said would be read
    valgrind --tool=callgrind --callgrind-out-file="$dir/counts" \
        "$plimsoll" serve "$dir" --listen 127.0.0.1:0 "$@" 2>"$dir/log" &
    server=$!
    serving "$server" "$dir/log"
    "$plimsoll" bench "${url}1k.html" -c 64 -n "$requests" --threads 1 -q >/dev/null
    kill "$server"
    wait "$server" || true
    server=
    instructions=$(sed -n 's/^summary: //p' "$dir/counts")
}

[ $# -gt 0 ] || set -- --model reactor
count 10000 "$@"
few=$instructions
count 40000 "$@"
echo "$(((instructions - few) / 30000)) instructions per request"
