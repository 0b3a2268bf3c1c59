//! Why a token is not taken, and how its bearer is told.

use crate::answer::Problem;

/// Why a token is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is no token that can be read.
    Malformed,
    /// No key in force made its signature.
    Unverified,
    /// It is another issuer's, or meant for somebody else.
    Elsewhere,
    /// Its time is over, or it does not say when that is.
    Expired,
    /// Its time has not come.
    NotYet,
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        // Whoever tries tokens learns no more than their rightful bearers need to know.
        match refused {
            Refused::Malformed | Refused::Unverified => Self::unauthorized("The token can't be verified."),
            Refused::Elsewhere => Self::unauthorized("The token is not meant for this server."),
            Refused::Expired => Self::unauthorized("The token has expired."),
            Refused::NotYet => Self::unauthorized("The token is not valid yet."),
        }
    }
}
