# What scripts have in common that start a server; to be read with `.` from the project's own directory.

# Builds the program, as $plimsoll, and makes a directory to serve, as $dir. When the script ends that goes, and so do the
# server and the loads whose numbers are in $server and $loads.
prepare() {
    cargo build --release --locked
    plimsoll=${CARGO_TARGET_DIR:-target}/release/plimsoll
    dir=$(mktemp -d)
    echo hello >"$dir/index.html"
    server= loads=
    # shellcheck disable=SC2086 # the numbers are words
    trap 'kill $loads $server 2>/dev/null || true; rm -rf "$dir"' EXIT
}

# The first number of that name in a result: figure FILE NAME.
figure() {
    sed -n "s/.*\"$2\": *\([0-9.]*\).*/\1/p" "$1" | head -n 1
}

# Waits until a server says in its log where it listens, and puts that into $url; into $admin where the operator connects, if
# there is such a place: serving PID LOG. A server that ends instead is a failure, and what it said is shown.
serving() {
    until grep -q '^listening on http://.*/$' "$2"; do
        kill -0 "$1" 2>/dev/null || { cat "$2" >&2; return 1; }
        sleep 0.05
    done
    url=$(sed -n 's/^listening on //p' "$2")
    admin=$(sed -n 's/^ *admin *\(http[^ ]*\).*/\1/p' "$2")
}
