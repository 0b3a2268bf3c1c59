//! The server's own limits: what it takes from a client, what it starts with, how it ends, what it counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod capacity;
mod clients;
mod ending;
mod framing;
mod log;
mod metrics;
mod settings;
mod signals;
mod start;
