//! A slow, obviously right model of what the contract promises, for tests to compare the real thing with.
//!
//! Every algorithm is written from the contract's words in rational arithmetic, with no eye to speed.
//! Nothing here knows the code that it judges: times are nanoseconds since the Unix epoch, limits are plain
//! numbers, and the same model serves the pure core, the memory store and a shared store.
//!
//! [`Counters::decide`] decides a stack; [`Counter`] is one limit's count on its own.

mod bucket;
pub mod civil;
mod counter;
mod counters;
mod limit;
mod search;
mod sliding_counter;
mod sliding_log;
mod verdict;
mod window;

pub use counter::Counter;
pub use counters::Counters;
pub use limit::{Kind, Level, Limit, Mode};
pub use verdict::{LevelVerdict, Verdict};
