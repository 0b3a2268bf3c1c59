//! Which hashes each API key has, so that those of a key that is changed can be taken out of the snapshot.

use tollgate_catalog::repository::Place;
use tollgate_catalog::snapshot::KeyHash;

use super::shards::Shards;

#[derive(Debug, Clone, Default)]
pub(super) struct KeyHashes(Shards<(String, String), Vec<KeyHash>>);

impl KeyHashes {
    /// The hashes of a key.
    pub(super) fn of(&self, place: &Place) -> &[KeyHash] {
        self.0.get(&name(place)).map_or(&[], Vec::as_slice)
    }

    /// Takes note of the hashes that a key has now.
    pub(super) fn set(&mut self, place: &Place, hashes: Vec<KeyHash>) {
        if hashes.is_empty() {
            self.0.remove(&name(place));
        } else {
            self.0.insert(name(place), hashes);
        }
    }

    /// The hashes of all keys.
    pub(super) fn all(&self) -> impl Iterator<Item = KeyHash> {
        self.0.values().flatten().copied()
    }
}

fn name(place: &Place) -> (String, String) {
    (place.org.clone(), place.id.clone())
}
