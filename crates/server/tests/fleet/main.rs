//! Several nodes on one Redis, over HTTP: one limit for all of them, whatever happens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod cluster;
mod limits;
mod load;
mod losses;
mod outages;
mod told;
