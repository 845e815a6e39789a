#!/bin/sh
# Everything that must hold, from a bare machine: style, lints, tests with real clients, documentation.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh cc c++ curl wget iproute2 apache2-utils wrk nghttp2-client chromium strace python3-requests \
    python3-httpx nodejs golang-go default-jdk-headless tsung nginx-light libnginx-mod-http-echo apache2-bin lighttpd \
    sqlite3-doc

step() { printf '\n== %s\n' "$*"; "$@"; }

step cargo fmt --all --check
step cargo fmt --manifest-path crates/wire/fuzz/Cargo.toml --check
step cargo clippy --workspace --all-targets --locked -- -D warnings
# Some tests start the floor and the program as a user would, so both are built first.
step cargo build --workspace --locked
# A client that is missing fails its test here, where a developer's `cargo test` skips it and says so.
PLIMSOLL_REQUIRE_CLIENTS=1 step cargo test --workspace --locked
step scripts/model-check.sh
step scripts/fuzz.sh 30
RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps --locked
