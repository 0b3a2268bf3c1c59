//! Tokens of an OpenID Connect issuer: JWTs that say who calls the control plane, in which role and for which org.
//!
//! [`token`] takes one apart, [`key`] and [`keys`] are what it is verified by, [`claims`] whether it is meant for this
//! server and now, [`grant`] what it may do here. [`source`] and [`follow`] keep the keys current in the background, so
//! that looking at a token never waits for anything.

mod algorithm;
mod claims;
mod flags;
mod follow;
mod grant;
mod key;
mod keys;
mod refused;
mod source;
mod token;
mod web_url;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::role::Caller;
use keys::Keys;
use source::Source;
use token::Token;

pub use flags::{OidcFlags, OidcSettings};
pub use follow::follow;
pub(super) use refused::Refused;

/// The issuer whose tokens are believed, and the keys in force.
pub struct Oidc {
    settings: OidcSettings,
    source: Source,
    keys: ArcSwap<Keys>,
    /// Somebody came with a key that is not known.
    unknown_key: Notify,
}

impl Oidc {
    /// Reads what must be good at the start: authorities, and the keys if they lie in a file. The error is a sentence
    /// that names the flag.
    pub fn new(settings: OidcSettings) -> Result<Self, String> {
        let source = Source::of(&settings)?;
        let keys = match &source {
            Source::File(path) => {
                source::read_file(path).map_err(|problem| format!("--oidc-jwks: {problem}"))?
            }
            Source::Web(_) => Keys::default(),
        };
        Ok(Self {
            settings,
            source,
            keys: ArcSwap::from_pointee(keys),
            unknown_key: Notify::new(),
        })
    }

    /// Whether a bearer token has the form of a JWT: three parts with dots between them.
    pub(super) fn resembles(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who calls with this token, at this Unix second.
    pub(super) fn caller(&self, token: &str, now: i64) -> Result<Caller, Refused> {
        let token = Token::read(token)?;
        let keys = self.keys.load();
        let Some(key) = keys.find(&token.key_id, token.algorithm) else {
            // Only a token that could be one of ours is worth a question to the issuer.
            if !keys.has(&token.key_id) && claims::check_address(&token.claims, &self.settings).is_ok() {
                self.unknown_key.notify_one();
            }
            return Err(Refused::Unverified);
        };
        if !key.verifies(token.algorithm, token.signed.as_bytes(), &token.signature) {
            return Err(Refused::Unverified);
        }
        claims::check_address(&token.claims, &self.settings)?;
        claims::check_times(&token.claims, now)?;
        grant::caller(&token.claims, &self.settings)
    }

    /// Puts other keys in force.
    fn install(&self, keys: Keys) {
        self.keys.store(Arc::new(keys));
    }
}
