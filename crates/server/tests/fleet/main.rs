//! Several nodes on one Redis, over HTTP: one limit for all of them, whatever happens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/draw.rs"]
mod draw;

#[path = "../../../catalog/tests/repository/postgres.rs"]
mod postgres;

#[path = "../grpc/asker.rs"]
#[allow(dead_code, reason = "most of it is for tests of gRPC")]
mod asker;

#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;

#[path = "../../../counters/tests/redis/proxy.rs"]
mod proxy;

mod batch;
mod bulkheads;
mod cluster;
mod deadline;
mod eviction;
mod full;
mod isolation;
mod limits;
mod load;
mod losses;
mod lost_replies;
mod outages;
mod random;
mod refills;
mod replicas;
mod returns;
mod rolling;
mod scopes;
mod settlements;
mod shared_counts;
mod size;
mod throttles;
mod told;
