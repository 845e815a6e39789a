#!/bin/sh
# The engine's unsafe code, and what stands on it, under Miri, which finds undefined behaviour. What needs system calls that Miri
# does not know is left out: listening sockets, io_uring, processes. `make valgrind` is for those.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh cc
cargo +nightly miri --version 2>/dev/null || {
    echo "miri is missing: rustup toolchain install nightly --component miri --component rust-src"
    exit 1
}
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" MIRIFLAGS="-Zmiri-disable-isolation" \
    cargo +nightly miri test --locked -p plimsoll-engine --lib -- \
    block:: buf:: executor:: histogram:: host::cgroup:: meter:: places:: pressure:: shift:: ticks:: timer:: tun:: unpark:: \
    uring::tag:: workers::crew:: workers::locked:: workers::queue::
