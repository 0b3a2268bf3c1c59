//! The server's own limits: what it takes from a client, what it starts with, how it ends, what it counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod activation;
mod admin;
mod capacity;
mod clients;
mod ending;
mod framing;
mod metrics;
mod open_files;
mod settings;
mod start;
mod strangers;
mod turns;
