//! Routes: a request's endpoint brought into one form, and the patterns it matches.
//!
//! Whatever a client does to a path, it is counted by the patterns it matches, never by the path itself
//! (docs/routes.md says how it is normalised, and what matches that services read in several ways).

mod endpoint;
mod pattern;
mod readings;
mod router;

pub use endpoint::{Endpoint, EndpointError};
pub use pattern::{Pattern, Route, Segment};
pub use router::{Matches, Router};
