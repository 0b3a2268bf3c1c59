//! The way to Redis, with real servers: every way in which a call can end is produced and told apart, by the server's
//! own count of what was executed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod node;
mod proxy;
mod servers;

mod calls;
mod cluster;
mod lanes;
mod outages;
mod refusals;
mod start;
mod unknown;
mod witnesses;
