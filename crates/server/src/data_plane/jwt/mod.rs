//! Callers that a JWT tells of: the tokens that clients show to the protected service also say who asks.
//!
//! A signature takes longer to verify than a request to decide, so what a good token says is remembered for as long as
//! it and the keys are good.

mod flags;
mod identity;
mod seen;

use std::sync::Arc;

use tollgate_core::Timestamp;

use crate::answer::Problem;
use crate::issuer::{self, Issuer};
use seen::Seen;

pub use flags::{JwtFlags, JwtSettings};
pub(crate) use identity::Identity;

/// The issuer whose tokens say who asks.
pub struct Jwt {
    settings: JwtSettings,
    pub(crate) issuer: Arc<Issuer>,
    seen: Seen,
}

impl Jwt {
    /// Reads what must be good at the start. The error is a sentence that names the flag.
    pub fn new(settings: JwtSettings) -> Result<Self, String> {
        let issuer = Arc::new(Issuer::new(settings.issuer.clone())?);
        Ok(Self {
            settings,
            issuer,
            seen: Seen::default(),
        })
    }

    /// Whom a bearer token speaks for; `None` if it is no JWT.
    pub(crate) fn bearer(&self, token: &str, now: Timestamp) -> Result<Option<Arc<Identity>>, Problem> {
        if !Issuer::resembles(token) {
            return Ok(None);
        }
        let now = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
        let installed = self.issuer.installed();
        if let Some(identity) = self.seen.find(token, installed, now) {
            return Ok(Some(identity));
        }
        let claims = self.issuer.verified(token, now)?;
        let identity = Identity::of(&claims, &self.settings).map_err(Problem::unauthorized)?;
        let identity = Arc::new(identity);
        self.seen
            .add(token, installed, issuer::ends(&claims), identity.clone());
        Ok(Some(identity))
    }
}
