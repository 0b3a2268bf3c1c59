//! The way to Redis: a script with keys and arguments goes to the primary of a slot, and what became of it comes back.
//!
//! There is one connection for each primary, and the routing is our own: a call is repeated only where it is certain
//! that it did not run, each connection knows [whom](Owner) it reaches, and whoever does not answer is left alone for
//! a while. [`encode`] and [`decode`] say what of `shared` the scripts are given and answer; nothing else here knows what
//! they do.

mod address;
mod breaker;
mod call;
mod carrier;
mod census;
mod client;
mod connection;
mod dial;
mod errand;
mod failure;
mod fleet;
mod health;
mod keys;
mod lineage;
mod link;
mod mirror;
mod once;
mod primary;
mod record;
mod script;
mod settings;
mod slots;
mod survey;
mod trouble;

pub use ::redis::Value;
pub use address::{Address, AddressError};
pub use call::{ADOPT, CALL, INSTALL, Malformed, adopt, decode, encode, install};
pub use carrier::RedisCarrier;
pub use client::Redis;
pub use failure::{Failure, Why};
pub use fleet::{BEAT_EVERY, Fleet, Found, Member, scripts};
pub use health::Health;
pub use keys::{Keys, Tag, escape};
pub use link::{Link, Owner};
pub use mirror::{Index, Mirror, Mirrored};
pub use once::{ONCE, decode_question, encode_question};
pub use record::{RECORD, decode_errand, encode_errand};
pub use script::{Parts, Script};
pub use settings::Settings;
pub use slots::{SLOTS, slot_of_key, slot_of_tag, tag_of_slot};
pub use trouble::{StartError, Trouble};
