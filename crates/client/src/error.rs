//! Why there is no decision.

use std::fmt;

use tonic::{Code, Status};

/// Why a check was not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// It is no check; the sentence says why.
    Invalid(String),
    /// Its API key is unknown or revoked.
    UnknownKey,
    /// As many checks wait as may. It was not sent.
    QueueFull,
    /// No answer came in time. It may have been charged.
    Late,
    /// The limiter can't decide, or can't be reached.
    Unavailable(String),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "not a check: {why}"),
            Self::UnknownKey => f.write_str("the API key is unknown or revoked"),
            Self::QueueFull => f.write_str("too many checks wait already"),
            Self::Late => f.write_str("no decision came in time"),
            Self::Unavailable(why) => write!(f, "the limiter can't decide: {why}"),
        }
    }
}

impl std::error::Error for CheckError {}

impl CheckError {
    /// What a status says of a check. One with a key that is not let in has a key that is not known.
    pub(crate) fn of(status: &Status, has_key: bool) -> Self {
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Self::Invalid(status.message().to_owned()),
            Code::Unauthenticated if has_key => Self::UnknownKey,
            Code::DeadlineExceeded | Code::Cancelled => Self::Late,
            code => Self::Unavailable(format!("{code}: {}", status.message())),
        }
    }
}
