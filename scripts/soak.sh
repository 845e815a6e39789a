#!/bin/sh
# Slow requests (30 ms each) and fast ones side by side for a long time: soak.sh DURATION [RESULT.md]. Fails if a single
# request fails, or if the server holds more at the end than it did after warming up.
set -eu
cd "$(dirname "$0")/.."
. scripts/serving.sh

duration=$1
result=${2:-}
scripts/setup.sh cc curl
prepare
flags="--model reuseport-pool --workers 300 --workloads"

# shellcheck disable=SC2086 # the flags are words
"$plimsoll" serve "$dir" --listen 127.0.0.1:0 --admin 127.0.0.1:0 $flags 2>"$dir/log" &
server=$!
serving "$server" "$dir/log"

sample() { # NAME: one number of the server's metrics
    curl -s "${admin}metrics" | sed -n "s/^$1 //p"
}
held() {
    printf '%s KiB resident, %s threads, %s descriptors' "$(($(sample process_resident_memory_bytes) / 1024))" \
        "$(sample process_threads)" "$(sample process_open_fds)"
}

printf 'soak: %s, slow and fast requests beside each other\n' "$duration"
# Warm first, so that what is allocated once does not count as growth.
"$plimsoll" bench "${url}slow" -c 100 -d 3s >/dev/null 2>&1 &
"$plimsoll" bench "${url}fast" -c 64 -d 3s --threads 1 >/dev/null 2>&1
wait $! || true
before=$(held)
rss_before=$(sample process_resident_memory_bytes)
"$plimsoll" bench "${url}slow" -c 100 -d "$duration" --threads 1 --json "$dir/slow.json" >"$dir/slow.txt" 2>&1 &
slow=$!
"$plimsoll" bench "${url}fast" -c 64 -d "$duration" --threads 1 --json "$dir/fast.json" >"$dir/fast.txt" 2>&1
wait "$slow"
sleep 1
after=$(held)
rss_after=$(sample process_resident_memory_bytes)

report() {
    printf '# Soak: %s of slow and fast requests beside each other\n\n' "$duration"
    printf 'Command: `make soak DURATION=%s`. Server: `plimsoll serve DIR %s`.\n\n' "$duration" "$flags"
    printf '| | before | after |\n|---|---|---|\n| the server holds | %s | %s |\n\n' "$before" "$after"
    printf '## /slow (30 ms each), 100 connections\n\n```\n%s\n```\n\n' "$(cat "$dir/slow.txt")"
    printf '## /fast, 64 connections\n\n```\n%s\n```\n' "$(cat "$dir/fast.txt")"
}
report
[ -z "$result" ] || report >"$result"

failed=0
for load in slow fast; do
    # Every kind of error is a line `"kind": count` in the object "errors".
    errors=$(sed -n '/"errors": {/,/}/s/.*": \([0-9]*\),*$/\1/p' "$dir/$load.json" | awk '{ sum += $1 } END { print sum + 0 }')
    [ "$errors" = 0 ] || { echo "soak: /$load had $errors errors"; failed=1; }
done
if [ "$rss_after" -gt $((rss_before + 16777216)) ]; then
    echo "soak: the server has grown from $rss_before to $rss_after bytes"
    failed=1
fi
[ "$failed" = 0 ] && echo "soak: nothing failed, nothing grew"
exit "$failed"
