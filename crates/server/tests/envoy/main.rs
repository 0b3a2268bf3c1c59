//! A real Envoy in front of a service, with Tollgate beside it, as deploy/envoy sets it up. `./test` installs Envoy and
//! runs these.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../oidc/signer.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod signer;

mod authorization;
mod load;
mod proxy;
mod quota;
mod quota_filter;
mod rate_limit;
mod service;
