//! Somebody elsewhere who says who is who: an issuer of JWTs, and the keys that they are verified by.
//!
//! [`token`] takes one apart, [`key`] and [`keys`] are what it is verified by, [`claims`] whether it is meant for this
//! server and now. [`source`] and [`follow`] keep the keys current in the background, so that looking at a token never
//! waits for anything. What a good token is good for, those say who take it.

mod algorithm;
mod claim;
mod claims;
mod follow;
mod key;
mod keys;
mod refused;
mod source;
mod token;
mod web_url;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use keys::Keys;
use source::Source;
use token::Token;

pub(crate) use claim::{found, well_formed};
pub(crate) use claims::{ends, expires};
pub use follow::follow;
pub(crate) use refused::Refused;

/// An issuer and what its tokens must say.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// What the flags that name it begin with.
    pub flag: &'static str,
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// Whom tokens must be meant for.
    pub audience: String,
    /// Where the keys are, if the issuer is not to be asked.
    pub jwks: Option<String>,
    /// The authority of the issuer's certificate, and the flag that names it.
    pub ca: (&'static str, Option<PathBuf>),
}

/// The issuer whose tokens are believed, and the keys in force.
pub struct Issuer {
    settings: IssuerSettings,
    source: Source,
    keys: ArcSwap<Keys>,
    /// How often keys were put in force.
    installed: AtomicU64,
    /// Somebody came with a key that is not known.
    unknown_key: Notify,
}

impl Issuer {
    /// Reads what must be good at the start: authorities, and the keys if they lie in a file. The error is a sentence
    /// that names the flag.
    pub fn new(settings: IssuerSettings) -> Result<Self, String> {
        let source = Source::of(&settings)?;
        let keys = match &source {
            Source::File(path) => {
                source::read_file(path).map_err(|problem| format!("--{}-jwks: {problem}", settings.flag))?
            }
            Source::Web(_) => Keys::default(),
        };
        Ok(Self {
            settings,
            source,
            keys: ArcSwap::from_pointee(keys),
            installed: AtomicU64::new(0),
            unknown_key: Notify::new(),
        })
    }

    /// Whether a bearer token has the form of a JWT: three parts with dots between them.
    pub(crate) fn resembles(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// What a token claims, if it is good at this Unix second.
    pub(crate) fn verified(&self, token: &str, now: i64) -> Result<Map<String, Value>, Refused> {
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
        Ok(token.claims)
    }

    /// How often keys were put in force: what was verified before may be no good any more.
    pub(crate) fn installed(&self) -> u64 {
        self.installed.load(Ordering::Acquire)
    }

    /// Puts other keys in force.
    fn install(&self, keys: Keys) {
        self.keys.store(Arc::new(keys));
        self.installed.fetch_add(1, Ordering::Release);
    }
}
