#!/bin/sh
# Runs the queues, with workers that come and go, and the inbox under shuttle, which chooses the order in which their threads run and reports any order
# in which a job is lost or a thread sleeps on. In a directory of its own, as everything is built anew for it.
set -eu
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/model-check" \
    cargo test --locked --release -p plimsoll-engine --lib models
