//! What was last compiled of the orgs that were asked for, kept from one epoch to the next.
//!
//! It is looked at when an org is first asked for in an epoch, never after that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::IdHash;

use super::epochs::Epochs;
use super::org::OrgEntry;
use super::table::Record;

const SHARDS: usize = 64;
/// How many orgs a shard remembers; past that it forgets them all.
const IN_A_SHARD: usize = 1_024;

struct Compiled {
    from: Record,
    epoch: u64,
    entry: Arc<OrgEntry>,
}

pub(super) struct Warm([Mutex<HashMap<u64, Compiled>>; SHARDS]);

impl Default for Warm {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Warm {
    /// What was compiled from this very record, if it is still right.
    pub(super) fn get(&self, hash: IdHash, record: &Record, now: &Epochs) -> Option<Arc<OrgEntry>> {
        let shard = self.shard(hash);
        let known = shard.get(&hash.short()).filter(|known| known.from.is(record))?;
        let holds = now.still_hold(known.epoch, &known.entry.from);
        holds.then(|| known.entry.clone())
    }

    pub(super) fn put(&self, hash: IdHash, from: Record, epoch: u64, entry: Arc<OrgEntry>) {
        let mut shard = self.shard(hash);
        if shard.len() >= IN_A_SHARD {
            shard.clear();
        }
        shard.insert(hash.short(), Compiled { from, epoch, entry });
    }

    fn shard(&self, hash: IdHash) -> MutexGuard<'_, HashMap<u64, Compiled>> {
        // The table takes its buckets from the low bits.
        let shard = &self.0[(hash.short() >> 58) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
