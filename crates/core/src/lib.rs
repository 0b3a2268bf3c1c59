//! The pure heart of Tollgate: limits, their algorithms, stacks of them and the decision on a stack.
//!
//! Nothing here knows a clock, a store, a file or a network. Time is an argument, arithmetic is on
//! integers, and every function gives the same answer for the same input. What is counted lives in a
//! [`Cell`]; a store keeps cells by [`CounterKey`], and has an [`Outcome`] made of a copy of each. [`stack::decide`] is what
//! it does with them, in its plainest form.

mod allowance;
mod bucket;
pub mod calendar;
mod cell;
mod decision;
mod fixed_window;
mod held;
mod key;
mod log;
mod rule;
mod sliding_counter;
mod slowing;
pub mod stack;
mod throttle;
mod time;

pub use allowance::{Allowance, Chunk, MAX_COUNT};
pub use calendar::{BillingAnchor, Calendar, Period};
pub use cell::Cell;
pub use decision::{Decision, Retry};
pub use held::Whence;
pub use key::{CounterKey, IdHash, Identity, KeySeed};
pub use log::Log;
pub use rule::{Algorithm, Anchor, MAX_LIMIT, MAX_LOG_LIMIT, MAX_WINDOW_NS, Rule};
pub use slowing::Slowing;
pub use stack::{Former, Level, Mode, Outcome, Outcomes};
pub use throttle::{NoThrottle, Throttle, Throttled};
pub use time::{Nanos, Timestamp};
