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
