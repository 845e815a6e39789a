#!/bin/bash
# Whether plimsoll bench finds what wrk and ab find, on the same servers under the same loads, rounds in turn, medians:
# agreement.sh [ROUNDS [SECONDS]]. Servers: Plimsoll with 5 ms of sleeping work, where the rate is arithmetic; nginx and
# Apache in front of that work, and with a page of their own. Where the work sets the rate it must agree within 3 %, and so must
# the median, but for the resolution of what the tools print (wrk 10 us, ab whole milliseconds); the 99th percentile within 10 %,
# which it differs by between rounds of the same tool.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5}
seconds=${2:-4}
scripts/setup.sh cc curl wrk apache2-utils nginx-light apache2-bin
cargo build --release --locked
bin=${CARGO_TARGET_DIR:-target}/release
dir=$(mktemp -d)
chmod 755 "$dir"
mkdir "$dir/site"
head -c 1024 /dev/zero | tr '\0' x >"$dir/site/index.html"
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; sleep 0.3; rm -rf "$dir"' EXIT

taskset -c 0 "$bin/plimsoll" serve "$dir/site" --listen 127.0.0.1:8091 --workloads --model reactor-pool --workers 32 --queue-capacity 100 >/dev/null 2>&1 &
started+=($!)
cat >"$dir/nginx.conf" <<CONF
worker_processes 1;
daemon off;
pid $dir/nginx.pid;
error_log $dir/nginx.log;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000;
    upstream work { server 127.0.0.1:8091; keepalive 64; keepalive_requests 1000000000; }
    server {
        listen 127.0.0.1:8092;
        root $dir/site;
        location /work { proxy_pass http://work; proxy_http_version 1.1; proxy_set_header Connection ""; }
    }
    proxy_temp_path $dir/proxy;
    client_body_temp_path $dir/body;
}
CONF
taskset -c 0 nginx -p "$dir" -c "$dir/nginx.conf" >/dev/null 2>&1 &
started+=($!)
modules=/usr/lib/apache2/modules
cat >"$dir/apache.conf" <<CONF
ServerRoot $dir
ServerName localhost
PidFile $dir/apache.pid
ErrorLog $dir/apache.log
Listen 127.0.0.1:8093
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dir_module $modules/mod_dir.so
LoadModule proxy_module $modules/mod_proxy.so
LoadModule proxy_http_module $modules/mod_proxy_http.so
ProxyPass /work http://127.0.0.1:8091/work
DocumentRoot $dir/site
DirectoryIndex index.html
MaxKeepAliveRequests 0
CONF
taskset -c 0 apache2 -f "$dir/apache.conf" -DFOREGROUND >/dev/null 2>&1 &
started+=($!)
for port in 8091 8092 8093; do
    for _ in $(seq 100); do
        if curl -sf -o /dev/null http://127.0.0.1:$port/; then continue 2; fi
        sleep 0.1
    done
    echo "agreement: the server on port $port does not answer" >&2
    exit 1
done

micros() { # a time as wrk writes it, in microseconds
    awk '{ v = $1 + 0; if ($1 ~ /us$/) print v; else if ($1 ~ /ms$/) print v * 1e3; else print v * 1e6 }'
}
# Prints SERVER TOOL RATE P50 P99, times in microseconds.
try() { # SERVER TOOL URL CONNECTIONS
    local rate p50 p99
    case $2 in
    plimsoll)
        taskset -c 1 "$bin/plimsoll" bench "$3" -c "$4" -d "${seconds}s" -t 1 -q --format csv >"$dir/out"
        read -r rate p50 p99 < <(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { print $at["requests_per_second"], $at["p50_us"], $at["p99_us"] == "" ? "n/a" : $at["p99_us"] }' "$dir/out")
        ;;
    wrk)
        taskset -c 1 wrk -t1 -c"$4" -d"${seconds}s" --latency "$3" >"$dir/out"
        rate=$(awk '/^Requests\/sec/ { print $2 }' "$dir/out")
        p50=$(awk '$1 == "50%" { print $2 }' "$dir/out" | micros)
        p99=$(awk '$1 == "99%" { print $2 }' "$dir/out" | micros)
        ;;
    ab)
        taskset -c 1 ab -q -k -c "$4" -t "$seconds" -n 10000000 "$3" >"$dir/out" 2>&1
        rate=$(awk '/^Requests per second/ { print $4 }' "$dir/out")
        p50=$(awk '$1 == "50%" { print $2 * 1000 }' "$dir/out")
        p99=$(awk '$1 == "99%" { print $2 * 1000 }' "$dir/out")
        ;;
    esac
    echo "$1 $2 ${rate:?$2 printed no rate} ${p50:-n/a} ${p99:-n/a}"
}
for _ in $(seq "$rounds"); do
    for tool in plimsoll wrk ab; do
        try work-5ms $tool 'http://127.0.0.1:8091/work?sleep=5ms' 16
        try nginx-work $tool 'http://127.0.0.1:8092/work?sleep=5ms' 16
        try apache-work $tool 'http://127.0.0.1:8093/work?sleep=5ms' 16
        # Few enough connections that the server is the limit, and not the tool.
        try nginx $tool http://127.0.0.1:8092/ 8
        try apache $tool http://127.0.0.1:8093/ 8
    done
done >"$dir/all"

. scripts/median.sh
# Whether a percentile is that of plimsoll, but for a share and the tool's resolution. One that a tool does not know is no
# agreement: at 16 connections and 5 ms there are enough requests for it from 4 seconds on.
agrees() { # SERVER TOOL COLUMN NAME SHARE
    local ours its resolution=1
    case $2 in
    wrk) resolution=10 ;;
    ab) resolution=1000 ;;
    esac
    ours=$(median "$dir/all" "$3" "$1" plimsoll)
    its=$(median "$dir/all" "$3" "$1" "$2")
    if awk -v a="$ours" -v b="$its" -v share="$5" -v resolution=$resolution \
        'BEGIN { d = a > b ? a - b : b - a; exit !(a + 0 > 0 && b + 0 > 0 && d <= share * a + resolution) }'; then
        return 0
    fi
    echo "agreement: $1: $4 is $its us by $2 and $ours us by plimsoll" >&2
    return 1
}
printf '| server | tool | requests/s | p50 us | p99 us | plimsoll / it |\n|---|---|---:|---:|---:|---:|\n'
status=0
for server in work-5ms nginx-work apache-work nginx apache; do
    ours=$(median "$dir/all" 3 $server plimsoll)
    for tool in plimsoll wrk ab; do
        rate=$(median "$dir/all" 3 $server $tool)
        ratio=$(awk "BEGIN { printf \"%.3f\", $ours / $rate }")
        printf '| %s | %s | %.0f | %s | %s | %s |\n' $server $tool "$rate" "$(median "$dir/all" 4 $server $tool)" "$(median "$dir/all" 5 $server $tool)" "$ratio"
        # Only where the server sets the rate does it say that a tool counts right: elsewhere the cheaper tool is faster.
        [[ $server == *work* ]] || continue
        if awk "BEGIN { exit !($ratio < 0.97 || $ratio > 1.03) }"; then
            echo "agreement: $server: $tool and plimsoll differ by more than 3 %" >&2
            status=1
        fi
        agrees $server $tool 4 p50 0.03 || status=1
        agrees $server $tool 5 p99 0.10 || status=1
    done
done
exit $status
