# The median of a column of the lines of a file that begin with some words: median FILE COLUMN WORD... What is no number does
# not count; n/a where nothing does.
median() {
    local file=$1 column=$2
    shift 2
    awk -v key="$* " -v k="$column" 'index($0, key) == 1 && $k ~ /^[0-9.]+$/ { print $k }' "$file" | sort -n |
        awk '{ all[NR] = $1 } END { print NR == 0 ? "n/a" : (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'
}
