//! nginx, Caddy, HAProxy and Kong's plugin in front of a service, as deploy/ sets them up. `./test` installs them and runs these.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../envoy/service.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod service;

mod caddy;
mod gateway;
mod haproxy;
mod kong;
mod nginx;
mod suite;
