//! Every store beside the oracle.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod memory;
mod slot;
mod suite;
