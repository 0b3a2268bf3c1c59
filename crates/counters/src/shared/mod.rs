//! Counters that a fleet shares, by leases that never let too much through.
//!
//! [`call`] is what nodes and the store say to each other, [`slot`] what the store does with it, [`answer`] what a
//! client is told of it; [`record`] is about charges that may be given back, [`once`] about requests that are to be
//! carried out once. All of it is pure: time is an argument and calls are values, so that it can be run through every
//! misfortune.

pub mod answer;
pub mod call;
mod crowd;
pub mod node;
pub mod once;
pub mod record;
pub mod slot;
mod store;

pub use store::{Carrier, Fallbacks, PATIENCE, SharedStore, Taken, Wait};
