//! The tokens that callers of the data plane must show, if any are set. Only their hashes are kept.

use std::fmt;
use std::str::FromStr;

use super::DataPlane;
use super::head::Head;
use crate::answer::Problem;
use crate::secret::SecretHash;

/// The fewest characters a token has.
const MIN_CHARACTERS: usize = 16;

/// Tokens of which each is good: two while one takes the other's place.
#[derive(Clone, PartialEq, Eq)]
pub struct DataTokens(Vec<SecretHash>);

/// A text is no list of tokens. It is not repeated, for it may be nearly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotTokens;

/// Who asks, which decides where the token may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A caller that asks for itself: `Authorization` is its own.
    Caller,
    /// A gateway that asks for a client: `Authorization` is the client's.
    Gateway,
}

impl FromStr for DataTokens {
    type Err = NotTokens;

    fn from_str(list: &str) -> Result<Self, NotTokens> {
        let token = |token: &str| {
            let token = token.trim();
            let right = token.len() >= MIN_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_graphic());
            right.then(|| SecretHash::of(token)).ok_or(NotTokens)
        };
        list.split(',').map(token).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for NotTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "each token must have at least {MIN_CHARACTERS} characters, all of them visible ASCII; commas stand between them"
        )
    }
}

impl std::error::Error for NotTokens {}

impl fmt::Debug for DataTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataTokens(…)")
    }
}

impl DataTokens {
    /// Whether this is one of them. All are compared, whichever fits, so that the time taken tells nothing.
    pub fn know(&self, token: &str) -> bool {
        let given = SecretHash::of(token);
        self.0
            .iter()
            .fold(false, |known, token| known | token.matches(&given))
    }
}

impl DataPlane {
    /// Lets a request through that carries a token, if one is needed.
    pub(super) fn admit(&self, head: &Head<'_>, place: Place) -> Result<(), Problem> {
        self.look_for_token(|name| head.header(name), place)
    }

    /// The same for a caller whose headers came otherwise.
    pub(crate) fn admit_caller<'h>(
        &self,
        header: impl Fn(&'static str) -> Option<&'h [u8]>,
    ) -> Result<(), Problem> {
        self.look_for_token(header, Place::Caller)
    }

    fn look_for_token<'h>(
        &self,
        header: impl Fn(&'static str) -> Option<&'h [u8]>,
        place: Place,
    ) -> Result<(), Problem> {
        let Some(tokens) = &self.tokens else {
            return Ok(());
        };
        let given = match (header("x-tollgate-token"), place) {
            (Some(token), _) => Some(token),
            (None, Place::Caller) => header("authorization").and_then(bearer),
            (None, Place::Gateway) => None,
        };
        match given.map(std::str::from_utf8) {
            Some(Ok(token)) if tokens.know(token.trim()) => Ok(()),
            Some(_) => Err(Problem::unauthorized("The data plane does not know this token.")),
            None => Err(Problem::unauthorized(match place {
                Place::Caller => {
                    "The data plane needs `X-Tollgate-Token: TOKEN` or `Authorization: Bearer TOKEN`."
                }
                Place::Gateway => "This address needs `X-Tollgate-Token: TOKEN`.",
            })),
        }
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, token) = value.split_at(space);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_token_or_several() {
        let tokens: DataTokens = "a-token-of-sixteen, another-token-0123".parse().unwrap();
        assert!(tokens.know("a-token-of-sixteen") && tokens.know("another-token-0123"));
        for other in ["", "a-token-of-sixtee", "a-token-of-sixteen, another-token-0123"] {
            assert!(!tokens.know(other), "{other}");
        }
    }

    #[test]
    fn refuses_short_empty_and_unsendable_ones() {
        for list in [
            "",
            "short",
            "a-token-of-sixteen,",
            "a-token-of-sixteen,short",
            "a token of sixteen",
            "a-tökén-of-sixteen",
        ] {
            assert_eq!(list.parse::<DataTokens>(), Err(NotTokens), "{list}");
        }
    }
}
