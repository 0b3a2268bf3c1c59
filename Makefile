# Short names for common commands. ./test is what counts.
.PHONY: build run test lint fmt bench

build:
	cargo build --release -p tollgate

run:
	cargo run --release -p tollgate -- serve

test:
	./test

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt:
	cargo fmt

bench:
	./bench/run
