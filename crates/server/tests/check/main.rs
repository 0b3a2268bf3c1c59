//! `POST /v1/check`, as a client sees it: each module is named for what of it is tried.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod binding;
mod charges;
mod costs;
mod denial;
mod endpoints;
mod identity;
mod input;
mod members;
mod modes;
mod numbers;
mod required_identity;
mod selection;
