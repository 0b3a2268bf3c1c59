//! The scripts on a real Redis: number for number what the slot in Rust does, at a bounded cost.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../redis/servers.rs"]
mod servers;
mod store;

mod differential;
mod exact;
mod formers;
mod logs;
mod once;
mod records;
mod sentinels;
mod writes;
