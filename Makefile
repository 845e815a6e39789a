# The commands people type. Each sets up what it needs and says so.

.PHONY: help demo test bench soak valgrind miri fuzz lint fmt build readme model-check

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## Serve a real site, check every byte of it, measure it, and write a report
	@scripts/demo.sh

test: ## Everything that must hold: style, lints, tests with real clients, documentation
	@scripts/test.sh

bench: ## Every budget of speed, beside the floor and peers: models, features, files, hand-offs, generators; fails where one is missed
	@scripts/bench.sh

soak: ## Slow and fast requests side by side, for an hour or as long as DURATION says
	@scripts/soak.sh $(or $(DURATION),1h)

valgrind: ## The whole server under valgrind, on every model that it can run
	@scripts/valgrind.sh

miri: ## The engine's unsafe code under Miri, as far as that has its system calls
	@scripts/miri.sh

fuzz: ## The fuzz targets of the codecs, each for as many seconds as SECONDS says
	@scripts/fuzz.sh $(or $(SECONDS),600)

lint: ## Formatting, lints and the rules of the repository
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --locked -p plimsoll --test rules

model-check: ## The queues and the inbox under a model checker that orders their threads
	@scripts/model-check.sh

fmt: ## Format the code
	cargo fmt --all

readme: ## Put the program's present help into README.md
	cargo build --locked -p plimsoll
	@scripts/readme-help.sh $${CARGO_TARGET_DIR:-target}/debug/plimsoll

build: ## Build the program
	@scripts/setup.sh cc
	cargo build --release --locked
