#!/bin/sh
# Puts the program's present help between the markers in README.md: readme-help.sh PROGRAM
set -eu
cd "$(dirname "$0")/.."
program=$1
new=$(mktemp)
trap 'rm -f "$new"' EXIT
inside=
while IFS= read -r line; do
    case $line in
        '<!-- help: '*)
            command=${line#<!-- help: }
            command=${command% -->}
            inside=yes
            # shellcheck disable=SC2086 # `lab run` is two words
            printf '%s\n```text\n%s\n```\n' "$line" "$(COLUMNS=100 "$program" $command -h)"
            ;;
        '<!-- end -->')
            inside=
            printf '%s\n' "$line"
            ;;
        *) [ -n "$inside" ] || printf '%s\n' "$line" ;;
    esac
done <README.md >"$new"
cat "$new" >README.md
