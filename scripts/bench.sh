#!/bin/sh
# Every budget of speed: those that are missed are named at the end, and then this fails.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh cc curl wrk nghttp2-client nginx-light lighttpd
cargo build --release --locked
plimsoll=${CARGO_TARGET_DIR:-target}/release/plimsoll

missed=
try() { # COMMAND...
    printf '\n== %s\n' "$*"
    "$@" || missed="$missed
  $*"
}

# Processor time per request of every model beside the floor and nginx; of a site's features; of 10 MiB beside lighttpd.
try "$plimsoll" lab run architectures
try "$plimsoll" lab run site
try "$plimsoll" lab run large-files
# Ten thousand connections by wrk, and source C's queue: claims, whose outcome is to be read.
try "$plimsoll" lab run ten-thousand
try "$plimsoll" lab run fast-slow-queue
# 100,000 files, each once.
try scripts/directory.sh
# Work that sleeps, and slow requests beside fast ones.
try scripts/sleeping.sh
try scripts/beside.sh
# The load generator beside others.
try scripts/generators.sh

[ -z "$missed" ] || { echo "missed:$missed"; exit 1; }
