//! Tollgate: a stack of limits decided all or none, from one binary.
//!
//! [`engine`] decides; the [`data_plane`] and the [`control_plane`] serve it over HTTP; [`answer`] says what
//! a decision looks like from outside; [`cli`] is what a person types.

pub mod answer;
pub mod audit_anchor;
pub mod catalogue;
pub mod check_body;
pub mod cli;
pub mod clock;
pub mod control_plane;
pub mod data_plane;
pub mod engine;
pub mod explanation;
pub mod exposure;
pub mod fleet;
pub mod grpc;
pub mod issuer;
pub mod ledger;
pub mod metrics;
mod names;
pub mod org_cap;
mod outgoing;
pub mod policies;
pub mod reservations;
pub mod resp;
mod rlqs;
mod rls;
pub mod secret;
pub mod serve;
pub mod settings;
pub mod tls;
pub mod warnings;
mod wire;
pub mod workers;
