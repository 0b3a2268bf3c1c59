//! Tokens that were found good, for as long as they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Identity;
use crate::secret::SecretHash;

const SHARDS: usize = 16;
/// Tokens that one shard remembers. A full one forgets all: tokens that are still shown are verified again.
const MOST: usize = 4_096;

struct Good {
    identity: Arc<Identity>,
    /// Which keys it was verified by.
    installed: u64,
    /// When it ends, in Unix seconds.
    ends: i64,
}

/// Good tokens by their hashes: nobody can read a token out of memory here.
#[derive(Default)]
pub(super) struct Seen([Mutex<HashMap<[u8; 32], Good>>; SHARDS]);

impl Seen {
    pub(super) fn find(&self, token: &str, installed: u64, now: i64) -> Option<Arc<Identity>> {
        let hash = SecretHash::of(token).bytes();
        let shard = self.shard(&hash);
        let good = shard.get(&hash)?;
        (good.installed == installed && now < good.ends).then(|| good.identity.clone())
    }

    pub(super) fn add(&self, token: &str, installed: u64, ends: i64, identity: Arc<Identity>) {
        let hash = SecretHash::of(token).bytes();
        let mut shard = self.shard(&hash);
        if shard.len() >= MOST {
            shard.clear();
        }
        let good = Good {
            identity,
            installed,
            ends,
        };
        shard.insert(hash, good);
    }

    fn shard(&self, hash: &[u8; 32]) -> MutexGuard<'_, HashMap<[u8; 32], Good>> {
        let place = usize::from(hash[0]) % SHARDS;
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
