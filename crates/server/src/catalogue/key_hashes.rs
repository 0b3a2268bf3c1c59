//! Which hashes each API key has, so that those of a key that is changed can be taken out of the snapshot.
//!
//! Every change works on a copy. There may be millions of keys, so a copy shares all that is not changed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollgate_catalog::repository::Place;
use tollgate_catalog::snapshot::KeyHash;

const SHARDS: usize = 1_024;

type Shard = HashMap<(String, String), Vec<KeyHash>>;

#[derive(Debug, Clone)]
pub(super) struct KeyHashes {
    shards: Vec<Arc<Shard>>,
    hasher: RandomState,
}

impl Default for KeyHashes {
    fn default() -> Self {
        Self {
            shards: vec![Arc::default(); SHARDS],
            hasher: RandomState::new(),
        }
    }
}

impl KeyHashes {
    /// The hashes of a key.
    pub(super) fn of(&self, place: &Place) -> &[KeyHash] {
        let name = (place.org.clone(), place.id.clone());
        self.shards[self.shard(&name)]
            .get(&name)
            .map_or(&[], Vec::as_slice)
    }

    /// Takes note of the hashes that a key has now.
    pub(super) fn set(&mut self, place: &Place, hashes: Vec<KeyHash>) {
        let name = (place.org.clone(), place.id.clone());
        let shard = self.shard(&name);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        if hashes.is_empty() {
            shard.remove(&name);
        } else {
            shard.insert(name, hashes);
        }
    }

    /// The hashes of all keys.
    pub(super) fn all(&self) -> impl Iterator<Item = KeyHash> {
        let keys = self.shards.iter().flat_map(|shard| shard.values());
        keys.flatten().copied()
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    fn shard(&self, name: &(String, String)) -> usize {
        self.hasher.hash_one(name) as usize % SHARDS
    }
}
