//! Tokens of an OpenID Connect issuer: JWTs that say who calls the control plane, in which role and for which org.

mod flags;
mod grant;

use std::sync::Arc;

use super::role::Caller;
use crate::answer::Problem;
use crate::issuer::{self, Issuer};

pub use flags::{OidcFlags, OidcSettings};

/// The issuer whose tokens are believed here, and where they say what they are good for.
pub struct Oidc {
    settings: OidcSettings,
    pub(crate) issuer: Arc<Issuer>,
}

/// Why a token is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is not good.
    Token(issuer::Refused),
    /// Its bearer has no name that the audit could use.
    Nameless,
    /// It is good, but what it grants makes no sense here: a sentence.
    Role(String),
}

impl Oidc {
    /// Reads what must be good at the start. The error is a sentence that names the flag.
    pub fn new(settings: OidcSettings) -> Result<Self, String> {
        let issuer = Arc::new(Issuer::new(settings.issuer.clone())?);
        Ok(Self { settings, issuer })
    }

    /// Who calls with this token, at this Unix second.
    pub(super) fn caller(&self, token: &str, now: i64) -> Result<Caller, Refused> {
        let claims = self.issuer.verified(token, now).map_err(Refused::Token)?;
        grant::caller(&claims, &self.settings)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Token(refused) => refused.into(),
            Refused::Nameless => Self::unauthorized("The token does not say whose it is."),
            Refused::Role(sentence) => Self::forbidden(sentence),
        }
    }
}
