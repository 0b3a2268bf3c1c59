//! The data plane over gRPC, against a running server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

mod asker;
mod authorization;
mod bounds;
mod checks;
mod descriptors;
mod drain;
mod envoy_files;
mod fleet;
mod frames;
mod framing;
mod json;
mod quota_mode;
mod quota_stream;
mod reservations;
mod services;
mod stack;
mod strangers;
mod tokens;
mod turns;
