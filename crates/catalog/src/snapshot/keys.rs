//! API keys by the hash of their secret: a check that brings one is told apart without a database.

use std::sync::Arc;

use tollgate_core::Timestamp;

use super::Snapshot;
use super::buckets::{Buckets, Hashed};

/// The SHA-256 of a key's secret. Secrets are random, so it spreads well and can't be guessed.
pub type KeyHash = [u8; 32];

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The hash of its secret.
    pub hash: KeyHash,
    /// The org.
    pub org: Box<str>,
    /// The app.
    pub app: Box<str>,
    /// The key's own id.
    pub id: Box<str>,
    /// It is for trying things out, and counted apart.
    pub test: bool,
    /// From when on it no longer works.
    pub expires: Option<Timestamp>,
}

impl Hashed for Arc<ApiKey> {
    fn hash(&self) -> u64 {
        short(&self.hash)
    }
}

fn short(hash: &KeyHash) -> u64 {
    hash.iter()
        .take(8)
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

pub(super) type KeyTable = Buckets<Arc<ApiKey>>;

impl Snapshot {
    /// The key of a secret, by its hash, if it still works.
    pub fn api_key(&self, hash: &KeyHash, now: Timestamp) -> Option<&Arc<ApiKey>> {
        // The look-up goes by a hash that nobody can steer, so its time tells nothing of a secret.
        let key = self.keys.find(short(hash), |key| key.hash == *hash);
        key.filter(|key| key.expires.is_none_or(|expires| now < expires))
    }

    /// The same with some keys changed: those that are gone by their hash, and those that are there now.
    #[must_use]
    pub fn with_keys(&self, gone: &[KeyHash], there: Vec<ApiKey>) -> Self {
        let mut keys = (*self.keys).clone();
        for hash in gone {
            keys.remove(short(hash), |key| key.hash == *hash);
        }
        for key in there {
            let hash = key.hash;
            keys.put(Arc::new(key), |known| known.hash == hash);
        }
        Self {
            keys: Arc::new(keys),
            ..self.clone()
        }
    }
}
