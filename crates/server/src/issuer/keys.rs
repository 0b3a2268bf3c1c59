//! The keys of an issuer at one time, from its JWK set.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::algorithm::Algorithm;
use super::key::{Jwk, Key};

/// The most keys that are looked at. Issuers have a handful.
const MAX_KEYS: usize = 100;

/// Every key that may verify tokens.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

/// A text is no set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotKeys {
    /// It is something else.
    Malformed,
    /// There are more than anybody needs.
    TooMany,
    /// None of them can verify a token.
    NoneUsable,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

impl Keys {
    /// Reads a JWK set. Keys that are for something else are left out, for issuers have those too.
    pub(super) fn read(text: &[u8]) -> Result<Self, NotKeys> {
        let set: JwkSet = serde_json::from_slice(text).map_err(|_| NotKeys::Malformed)?;
        if set.keys.len() > MAX_KEYS {
            return Err(NotKeys::TooMany);
        }
        let jwks = set
            .keys
            .into_iter()
            .filter_map(|jwk| serde_json::from_value::<Jwk>(jwk).ok());
        let keys: Vec<Key> = jwks.filter_map(|jwk| Key::read(&jwk)).collect();
        if keys.is_empty() {
            return Err(NotKeys::NoneUsable);
        }
        Ok(Self(keys))
    }

    /// The key of this id, if it may be used by this algorithm.
    pub(super) fn find(&self, id: &str, algorithm: Algorithm) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id && key.is_for(algorithm))
    }

    /// Whether there is a key of this id at all.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for NotKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("it is not a JWK set"),
            Self::TooMany => write!(f, "it has more than {MAX_KEYS} keys"),
            Self::NoneUsable => f.write_str("it has no key that could verify tokens"),
        }
    }
}

impl std::error::Error for NotKeys {}
