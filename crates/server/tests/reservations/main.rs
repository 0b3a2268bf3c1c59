//! Work whose cost is known only afterwards: reserve, settle, refund, and requests that count once. Each test is named by
//! docs/reservations.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../catalog/tests/repository/postgres.rs"]
mod postgres;
#[path = "../../../counters/tests/redis/proxy.rs"]
mod proxy;
#[path = "../../../counters/tests/redis/servers.rs"]
mod servers;
#[path = "../quotas/world.rs"]
#[allow(dead_code, reason = "the tests of quotas use all of it")]
mod world;

mod desk;
mod ends;
mod fleet;
mod fleet_claims;
mod fleet_keys;
mod fleet_quotas;
mod keys;
mod lost_replies;
mod nodes;
mod quotas;
mod refund;
mod settle;
