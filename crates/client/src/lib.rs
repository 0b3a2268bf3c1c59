//! Tollgate in a Rust service: [`LimitLayer`] asks before the service answers, [`RetryLayer`] waits when another
//! service says so.
//!
//! Whoever decides is a [`Limiter`]: [`Client`] asks a server over gRPC, many checks in one call, and with the feature
//! `embedded` `Embedded` decides in this process. `docs/client.md` shows all of it.

mod answer;
mod carrier;
mod client;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod layer;
mod limiter;
mod retry;

pub use client::{Client, Settings};
#[cfg(feature = "embedded")]
pub use embedded::{Embedded, NotEmbedded};
pub use error::CheckError;
pub use layer::{Limit, LimitLayer, OnFailure};
pub use limiter::Limiter;
pub use retry::{Patience, Retry, RetryLayer};
pub use tollgate_proto::v1::{CheckLimitRequest as Check, CheckLimitResponse as Decision};
