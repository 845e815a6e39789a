# The median of a column of the lines of a file that begin with some words: median FILE COLUMN WORD...
median() {
    file=$1 column=$2
    shift 2
    awk -v key="$* " -v k="$column" 'index($0, key) == 1 { print $k }' "$file" | sort -n |
        awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}
