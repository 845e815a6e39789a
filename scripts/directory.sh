#!/bin/sh
# A directory of 100,000 files of 1 KiB, each asked for once: processor time per request of the server, and its memory
# before and after, for Plimsoll and nginx, rounds in turn: directory.sh [FILES [ROUNDS]]. The server has one core and the load the other.
set -eu
cd "$(dirname "$0")/.."

files=${1:-100000}
rounds=${2:-5}
scripts/setup.sh cc nginx-light wrk curl
cargo build --release --locked
plimsoll=${CARGO_TARGET_DIR:-target}/release/plimsoll
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
mkdir "$dir/root"
echo "directory: making $files files"
head -c $((files * 1024)) /dev/zero | tr '\0' x |
    (cd "$dir/root" && split -b 1024 -d -a 6 --additional-suffix=.html - f)

cat >"$dir/nginx.conf" <<END
worker_processes 1;
worker_rlimit_nofile 16384;
pid $dir/pid;
error_log $dir/error.log;
events { worker_connections 8000; multi_accept on; use epoll; }
http {
    access_log off;
    sendfile on;
    types { text/html html; }
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=60s;
    open_file_cache_valid 1s;
    client_body_temp_path $dir/body;
    proxy_temp_path $dir/proxy;
    fastcgi_temp_path $dir/fastcgi;
    uwsgi_temp_path $dir/uwsgi;
    scgi_temp_path $dir/scgi;
    server { listen 127.0.0.1:8099 backlog=4096; root $dir/root; }
}
END
chmod -R a+rX "$dir"

# Processor time of a process and its children so far, in nanoseconds.
cpu() {
    for pid in "$1" $(cat "/proc/$1/task/$1/children"); do
        cat "/proc/$pid/task/"*/schedstat
    done | awk '{ sum += $1 } END { printf "%d", sum }'
}
resident() {
    for pid in "$1" $(cat "/proc/$1/task/$1/children"); do cat "/proc/$pid/statm"; done | awk '{ sum += $2 } END { print sum * 4 }'
}
round() { # NAME COMMAND...: one line: microseconds per request, KiB resident before and after
    name=$1
    shift
    taskset -c 0 "$@" 2>"$dir/$name.log" &
    server=$!
    tries=0
    until curl -s -o /dev/null "http://127.0.0.1:8099/f000000.html"; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { cat "$dir/$name.log"; exit 1; }
        sleep 0.1
    done
    before=$(cpu "$server")
    held=$(resident "$server")
    FILES=$files taskset -c 1 wrk -t1 -c16 -d8s -s "$dir/each.lua" http://127.0.0.1:8099 >"$dir/wrk" 2>&1
    sent=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$dir/wrk")
    if [ "$sent" -lt "$files" ] || grep -qE "Non-2xx|Socket errors" "$dir/wrk"; then
        cat "$dir/wrk"
        exit 1
    fi
    after=$(cpu "$server")
    echo "$name $(awk "BEGIN { printf \"%.2f\", ($after - $before) / 1000 / $files }") $held $(resident "$server")"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

# wrk waits until its time is over in any case. One thread, so its connections take the paths in turn; the last ones are asked for a second time.
cat >"$dir/each.lua" <<'END'
local files, next_file = tonumber(os.getenv("FILES")), 0
function request()
    next_file = next_file + 1
    if next_file > files + 16 then wrk.thread:stop() end
    return wrk.format("GET", string.format("/f%06d.html", (next_file - 1) % files))
end
END
for at in $(seq "$rounds"); do
    round plimsoll "$plimsoll" serve "$dir/root" --listen 127.0.0.1:8099 --model reuseport --reactors 1
    round plimsoll-no-sandbox "$plimsoll" serve "$dir/root" --listen 127.0.0.1:8099 --model reuseport --reactors 1 --sandbox off
    round nginx nginx -c "$dir/nginx.conf" -g 'daemon off;'
done | tee "$dir/rounds"
. scripts/median.sh
printf '\n| server | CPU us per request | KiB resident before | after |\n|---|---:|---:|---:|\n'
for name in plimsoll plimsoll-no-sandbox nginx; do
    printf '| %s | %s | %s | %s |\n' "$name" "$(median "$dir/rounds" 2 "$name")" "$(median "$dir/rounds" 3 "$name")" "$(median "$dir/rounds" 4 "$name")"
done
ratio=$(awk "BEGIN { printf \"%.2f\", $(median "$dir/rounds" 2 plimsoll) / $(median "$dir/rounds" 2 nginx) }")
echo "directory: $ratio x nginx; at most 1.5 x is the budget"
awk "BEGIN { exit !($ratio <= 1.5) }"
