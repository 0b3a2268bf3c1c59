//! A map in shards. Every change of the catalogue works on a copy, and a copy shares each shard that is not changed, so
//! that it costs the same however much the map holds.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

const SHARDS: usize = 1_024;

#[derive(Debug, Clone)]
pub(super) struct Shards<K, V> {
    shards: Vec<Arc<HashMap<K, V>>>,
    hasher: RandomState,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Arc::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Shards<K, V> {
    pub(super) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shards[self.shard(key)].get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.shard_of(&key).insert(key, value);
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // What is not there is no reason to copy a shard.
        self.get(key)?;
        self.shard_of(key).remove(key)
    }

    /// Changes a value, made first if there is none. It is removed if that says that nothing is left of it.
    pub(super) fn change(&mut self, key: &K, change: impl FnOnce(&mut V) -> bool)
    where
        V: Default,
    {
        let shard = self.shard_of(key);
        if !change(shard.entry(key.clone()).or_default()) {
            shard.remove(key);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// True if both share every shard: one is a copy of the other, and neither was changed since.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        let mut pairs = self.shards.iter().zip(&other.shards);
        pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn shard_of<Q: Hash + ?Sized>(&mut self, key: &Q) -> &mut HashMap<K, V> {
        let shard = self.shard(key);
        Arc::make_mut(&mut self.shards[shard])
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }
}
