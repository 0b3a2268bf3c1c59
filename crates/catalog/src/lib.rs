//! What limits there are and whom they apply to: tiers, orgs, endpoint classes, policies, overrides.
//!
//! A policy file is read into a [`model::PolicySet`] ([`parse_policy_set`]), which is compiled into an immutable
//! [`snapshot::Snapshot`], which resolves a [`Request`] into the stack of levels a store decides. Nothing
//! here counts, and nothing here knows how a request arrived.

pub mod document;
pub mod foreign;
pub mod model;
pub mod pinned;
mod policy_file;
pub mod repository;
mod request;
pub mod route;
pub mod snapshot;

pub use policy_file::parse_policy_set;
pub use request::{MAX_COST, Request, RequestError};
