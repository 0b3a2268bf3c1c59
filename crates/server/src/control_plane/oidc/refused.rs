//! Why a token is not taken, and how its bearer is told.

use crate::answer::Problem;

/// Why a token is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Refused {
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
    /// Its bearer has no name that the audit could use.
    Nameless,
    /// It is good, but what it grants makes no sense here: a sentence.
    Role(String),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        // Whoever tries tokens learns no more than their rightful bearers need to know.
        match refused {
            Refused::Malformed | Refused::Unverified => Self::unauthorized("The token can't be verified."),
            Refused::Elsewhere => Self::unauthorized("The token is not meant for this server."),
            Refused::Expired => Self::unauthorized("The token has expired."),
            Refused::NotYet => Self::unauthorized("The token is not valid yet."),
            Refused::Nameless => Self::unauthorized("The token does not say whose it is."),
            Refused::Role(sentence) => Self::forbidden(sentence),
        }
    }
}
