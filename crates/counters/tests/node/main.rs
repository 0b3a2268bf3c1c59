//! Nodes and a slot of the store in one process: what nodes ask, and what they do with the answer.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod fallbacks;
mod fleet;
mod refusals;
mod returns;
mod revisions;
