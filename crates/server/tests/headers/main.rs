//! The headers a limited client is told by, in every style.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod ietf;
mod levels;
mod retry_after;
mod styles;
mod x;
