//! The identity that a request must have to be decided at all.
//!
//! Without one only limits by address, route and `global` could hold a request, which most policy sets lack.

use std::str::FromStr;

use tollgate_catalog::Request;

use super::DataPlane;
use crate::answer::Problem;

/// The least that must be known of who sends a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequiredIdentity {
    /// Nothing: a request without an org has the tier `default`.
    #[default]
    Nothing,
    /// An org.
    Org,
    /// A key of an org.
    Key,
}

/// A text that names no required identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIdentity(String);

/// Who asked for the decision: what can be sent to mend it depends on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A service that sends checks.
    Service,
    /// A trusted gateway, for a client of its own.
    Gateway,
    /// Whoever sends a gateway's question from an address that is not trusted.
    Untrusted,
}

impl RequiredIdentity {
    /// The names, as the setting takes them.
    pub const NAMES: [&'static str; 3] = ["none", "org", "key"];

    /// True if a request may be decided.
    #[inline]
    pub fn is_met_by(self, request: &Request<'_>) -> bool {
        match self {
            Self::Nothing => true,
            Self::Org => request.org.is_some(),
            Self::Key => request.org.is_some() && request.key.is_some(),
        }
    }

    /// Says what to send.
    #[cold]
    fn missing(self, sender: Sender, takes_jwt: bool) -> Problem {
        let jwt = if takes_jwt {
            ", or a JWT in `Authorization: Bearer`"
        } else {
            ""
        };
        let lacks = match self {
            Self::Key => "key",
            Self::Org | Self::Nothing => "org",
        };
        let headers = match self {
            Self::Key => "`X-Tollgate-Org` and `X-Tollgate-Key`",
            Self::Org | Self::Nothing => "`X-Tollgate-Org`",
        };
        Problem::unauthorized(match (sender, self) {
            (Sender::Service, Self::Key) => {
                "The request names no key. Send `apiKey`, or `orgId` and `keyId`.".to_owned()
            }
            (Sender::Service, _) => "The request names no org. Send `orgId` or `apiKey`.".to_owned(),
            (Sender::Gateway, _) => format!(
                "The request names no {lacks}. Send an API key in `X-API-Key`{jwt}; a gateway may send {headers}."
            ),
            (Sender::Untrusted, _) => format!(
                "The request names no {lacks}: identities are taken only from trusted proxies (--trusted-proxies)."
            ),
        })
    }
}

impl DataPlane {
    /// Refuses a request that lacks the identity that is required.
    #[inline]
    pub(crate) fn require_identity(&self, request: &Request<'_>, sender: Sender) -> Result<(), Problem> {
        if self.required_identity.is_met_by(request) {
            return Ok(());
        }
        Err(self.required_identity.missing(sender, self.jwt.is_some()))
    }
}

impl FromStr for RequiredIdentity {
    type Err = UnknownIdentity;

    fn from_str(name: &str) -> Result<Self, UnknownIdentity> {
        match name {
            "none" => Ok(Self::Nothing),
            "org" => Ok(Self::Org),
            "key" => Ok(Self::Key),
            other => Err(UnknownIdentity(other.to_owned())),
        }
    }
}

impl std::fmt::Display for UnknownIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not none, org or key", self.0)
    }
}

impl std::error::Error for UnknownIdentity {}
