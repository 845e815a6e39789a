#!/bin/sh
# Runs the whole server under valgrind's memcheck while clients load it, on every model that valgrind can run, and fails on
# the first invalid access or definite leak. io_uring is not among them: valgrind does not see what its kernel side writes.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh
scripts/setup.sh cc curl valgrind
cargo build --locked -p plimsoll
plimsoll=${CARGO_TARGET_DIR:-target}/debug/plimsoll
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c 300000 /dev/zero >"$dir/large"
echo hello >"$dir/index.html"

for flags in "thread-per-connection --workers 40" "thread-pool --workers 4" "reactor" "reactor-pool" "multi-reactor" \
    "multi-reactor-pool --queue lock-free" "reuseport --spread shared" "reuseport-pool --queue stealing"; do
    printf '== %s\n' "$flags"
    : >"$dir/log" # or what the last server said would be read
    # shellcheck disable=SC2086 # the flags are words
    valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --fair-sched=yes \
        "$plimsoll" serve "$dir" --listen 127.0.0.1:0 --connections 100 --workloads --slow-duration 5ms --model $flags \
        2>"$dir/log" &
    server=$!
    serving "$server" "$dir/log"
    for path in index.html large slow "bytes?n=100000" nothing; do
        "$plimsoll" bench "$url$path" -c 8 -n 100 --threads 1 --timeout 60s >/dev/null 2>&1 || true
        curl -s --max-time 60 -o /dev/null -d body "${url}echo"
    done
    kill -TERM "$server"
    if ! wait "$server"; then
        cat "$dir/log"
        exit 1
    fi
done
echo "valgrind: nothing found"
