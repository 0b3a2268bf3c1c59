//! Quotas that outlive the process: real servers on SQLite and on a real PostgreSQL server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../catalog/tests/repository/postgres.rs"]
mod postgres;
#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod alerts;
mod alike;
mod away;
mod changed_file;
mod costs;
mod fleet;
mod full;
mod idle;
mod killed;
mod load;
mod negative_hits;
mod nodes;
mod orphans;
mod outage;
mod periods;
mod quiet;
mod restart;
mod statement;
mod untold;
mod world;
