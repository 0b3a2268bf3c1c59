//! The server's own limits: what it takes from a client, what it starts with, how it ends, what it counts.

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod capacity;
mod clients;
mod ending;
mod metrics;
mod settings;
mod start;
