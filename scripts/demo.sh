#!/bin/sh
# The main job on real input: serves Debian's copy of the SQLite site, compares every byte of it with the
# files, loads it, runs a small experiment, and says what to do next.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh cc curl wget sqlite3-doc
cargo build --release --locked
plimsoll=${CARGO_TARGET_DIR:-$PWD/target}/release/plimsoll
root=/usr/share/doc/sqlite3
page=/index.html

work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

say "Serving $root"
"$plimsoll" serve "$root" --listen 127.0.0.1:0 --access-log "$work/access.log" 2>"$work/log" &
server=$!
tries=0
until url=$(sed -n 's|^listening on \(http://[^/]*\)/$|\1|p' "$work/log") && [ -n "$url" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; fail "the server did not start"; }
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || fail "the server did not start within 10 s"
    sleep 0.05
done
cat "$work/log"

say "Mirroring it as a reader would, link by link"
# 8: some link of the site leads nowhere; which ones is looked at below.
wget --mirror --no-host-directories --no-verbose --tries=1 --execute robots=off \
    --directory-prefix="$work/crawl" "$url/" 2>"$work/crawl.log" || [ $? -eq 8 ] || fail "wget failed: $(tail -n 3 "$work/crawl.log")"
(cd "$work/crawl" && find . -type f) | while read -r file; do
    # A query is part of the name that wget gives a file.
    cmp -s "$work/crawl/$file" "$root/${file%%\?*}" || fail "$file is not what is on disk"
done
# Links to files that are not on disk either are the site's own.
sed -n 's|^\(http[^ ]*\):$|\1|p' "$work/crawl.log" | sed "s|^$url/||; s|[?#].*||" | sort -u | while read -r path; do
    [ ! -f "$root/$path" ] || fail "$path is on disk, and was not served"
done
printf '%s files reached by links, each equal to the file on disk; %s links of the site lead nowhere\n' \
    "$(find "$work/crawl" -type f | wc -l)" "$(grep -c 'ERROR 404' "$work/crawl.log" || true)"

sleep 0.3 # what is logged is written within a tenth of a second
first=$(wc -l <"$work/access.log")
# Every file by itself: wget follows no links of a page that it has already.
(cd "$work/crawl" && find . -type f ! -name '*\?*') | sed 's|^\./||; s/%/%25/g; s/ /%20/g' | sed "s|^|$url/|" >"$work/again"
wget --timestamping --force-directories --no-host-directories --no-verbose --tries=1 --directory-prefix="$work/crawl" \
    --input-file="$work/again" 2>"$work/again.log" || fail "wget failed: $(tail -n 3 "$work/again.log")"
sleep 0.3
again=$(tail -n +$((first + 1)) "$work/access.log" | grep -c '" 200 ' || true)
had=$(tail -n +$((first + 1)) "$work/access.log" | grep -c '" 304 ' || true)
# Only what has no date to ask by is sent again: nothing, for files.
[ "$again" -eq 0 ] || fail "the second time $again files were sent again"
printf 'the second time all %s files were there already (304), and none was sent again\n' "$had"

say "Fetching every file of it, also those that no link leads to"
(cd "$root" && find . -type f) | sed 's|^\./||' | while read -r path; do
    encoded=$(printf '%s' "$path" | sed 's/%/%25/g; s/ /%20/g; s/?/%3F/g; s/#/%23/g; s/"/%22/g')
    printf 'url = "%s/%s"\noutput = "%s/all/%s"\n' "$url" "$encoded" "$work" "$path"
done >"$work/urls"
curl --silent --show-error --fail --parallel --parallel-max 32 --create-dirs --config "$work/urls" 2>"$work/curl.log" ||
    fail "curl could not fetch every file: $(tail -n 3 "$work/curl.log")"
diff -r "$root" "$work/all" || fail "what was fetched differs from the files"
printf '%s files, %s bytes: equal, byte by byte\n' "$(find "$work/all" -type f | wc -l)" "$(find "$work/all" -type f -exec cat {} + | wc -c)"

say "Loading a page of it: plimsoll bench $url$page -c 64 -d 5s"
"$plimsoll" bench "$url$page" -c 64 -d 5s

kill "$server"
wait "$server" || fail "the server did not stop cleanly"
server=
tail -n 1 "$work/log"

say "Which model is fastest here? plimsoll lab run models --quick"
out=out/demo-$(date +%Y%m%dT%H%M%S)
"$plimsoll" lab run models --quick --root "$root" --out "$out"

say "Your own directory"
printf 'The report:   %s\n' "$PWD/$out/report.html"
printf 'Serve yours:  %s serve DIRECTORY --listen 127.0.0.1:8080\n' "$plimsoll"
