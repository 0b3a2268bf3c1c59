//! The headers a limited client is told by, in every style.

#[path = "../common/mod.rs"]
mod common;

mod ietf;
mod levels;
mod retry_after;
mod styles;
mod x;
