//! Nodes that share a catalogue: real processes on a real PostgreSQL server, and on SQLite where one node is enough.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod fleet;
#[path = "../../../catalog/tests/repository/postgres.rs"]
mod postgres;
#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod away;
mod differing_files;
mod disk;
mod frozen;
mod killed;
mod listen;
mod mirror;
mod once;
mod propagation;
mod reload;
mod rollouts;
