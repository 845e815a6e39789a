#!/bin/sh
# Runs the fuzz targets of the codecs, each for so many seconds, from the corpus that is kept with them:
# fuzz.sh SECONDS [TARGET...]. With KEEP=1 the corpus is reduced to what covers the same, and kept. What fails is left in
# fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."

seconds=$1
shift
scripts/setup.sh cc c++
cd crates/wire/fuzz
targets=${*:-head chunked ranges dates conditions paths}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../../target}/fuzz
export CARGO_TARGET_DIR
# LLVM's counters of edges and comparisons, which libFuzzer reads. The code is safe Rust, so no sanitizer is needed, and
# the stable compiler will do. With a target named, the flags do not reach build scripts and macros.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
export RUSTFLAGS
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --locked --target "$host"

fuzz() { # TARGET
    mkdir -p "corpus/$1" artifacts
    [ ! -f "corpus/$1.tar.gz" ] || tar -xzf "corpus/$1.tar.gz" -C corpus
    log=$(mktemp)
    if "$CARGO_TARGET_DIR/$host/release/$1" "corpus/$1" -max_total_time="$seconds" -max_len=4096 -timeout=5 \
        -rss_limit_mb=2048 -artifact_prefix="artifacts/$1-" -print_final_stats=1 >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz: $1: $runs runs in $seconds s, $(find "corpus/$1" -type f | wc -l) inputs kept, nothing found"
        rm "$log"
        [ -z "${KEEP:-}" ] || keep "$1"
    else
        tail -40 "$log"
        echo "fuzz: $1 failed; its input is in crates/wire/fuzz/artifacts, all it said in $log"
        return 1
    fi
}

# One file for each target, the same whoever packs it.
keep() { # TARGET
    reduced=$(mktemp -d)
    mkdir "$reduced/$1"
    "$CARGO_TARGET_DIR/$host/release/$1" -merge=1 "$reduced/$1" "corpus/$1" >/dev/null 2>&1
    tar -C "$reduced" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$1" | gzip -9n >"corpus/$1.tar.gz"
    echo "fuzz: $1: $(find "$reduced/$1" -type f | wc -l) inputs kept in corpus/$1.tar.gz"
    rm -r "$reduced"
}

# Two at a time, for two cores.
failed=0
running=
for target in $targets; do
    fuzz "$target" &
    if [ -n "$running" ]; then
        wait "$running" || failed=1
    fi
    running=$!
done
wait "$running" || failed=1
exit "$failed"
