//! What a decision looks like from outside: JSON, headers, and the sentence a person reads.

mod elapsed;
mod headers;
mod json;
mod message;
mod problem;
mod time;

pub use elapsed::elapsed;
pub use headers::{HeaderStyles, Sink, write_headers};
pub use json::mode_name;
pub use json::write_decision;
pub use message::{denial_message, duration, grouped};
pub use problem::{Problem, denial_error, write_denial, write_denial_members, write_problem, write_too_many};
pub use time::{millis_up, retry_after_seconds, rfc3339, seconds_up};
