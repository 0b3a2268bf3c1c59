//! Orgs by their hash, the same that keys their counters.
//!
//! Records are kept in a table that is shared from one snapshot to the next. What is compiled of them is another
//! matter: an org's entry is made when it is first asked for, so that a change of what all orgs have in common, which
//! begins a new *epoch*, costs nothing for those that are idle.

use std::sync::{Arc, OnceLock};

use tollgate_core::IdHash;

use super::buckets::{Buckets, Hashed};
use super::common::Common;
use super::org::OrgEntry;
use crate::model::OrgRecord;

type Entry = OnceLock<Arc<OrgEntry>>;

#[derive(Clone)]
struct Slot {
    hash: IdHash,
    record: Arc<OrgRecord>,
    entry: Entry,
    /// The epoch of the table that its entry belongs to.
    epoch: u32,
}

#[derive(Clone)]
pub(super) struct OrgTable {
    slots: Buckets<Slot>,
    /// How often what is common was changed.
    epoch: u32,
    /// The entries in this epoch of slots that are of an earlier one: for each bucket one for each of its places.
    anew: Arc<[OnceLock<Box<[Entry]>>]>,
}

impl OrgTable {
    /// An empty table made for so many orgs.
    pub(super) fn sized(orgs: usize) -> Self {
        Self {
            slots: Buckets::sized(orgs),
            epoch: 0,
            anew: Arc::default(),
        }
    }

    /// What is known of an org, compiled against what all orgs have in common.
    #[inline]
    pub(super) fn get(&self, hash: IdHash, id: &str, common: &Common) -> Option<&OrgEntry> {
        let (bucket, place, slot) = self.slots.find_at(hash.short(), |slot| slot.is(hash, id))?;
        let entry = if slot.epoch == self.epoch {
            &slot.entry
        } else {
            let places = self.slots.bucket(bucket).len();
            let fresh = || (0..places).map(|_| Entry::new()).collect();
            &self.anew[bucket].get_or_init(fresh)[place]
        };
        Some(entry.get_or_init(|| Arc::new(common.compile_known(&slot.record))))
    }

    /// What an org was made from.
    pub(super) fn record(&self, hash: IdHash, id: &str) -> Option<&Arc<OrgRecord>> {
        let slot = self.slots.find(hash.short(), |slot| slot.is(hash, id));
        slot.map(|slot| &slot.record)
    }

    /// Puts an org in place of what was there of it, with its entry if that is compiled already.
    pub(super) fn put(&mut self, hash: IdHash, record: Arc<OrgRecord>, entry: Option<OrgEntry>) {
        if self.slots.outgrown() {
            // What is compiled goes by places, and those change.
            let mut larger = Self::sized(self.len() * 2);
            larger.adopt(self);
            *self = larger;
        }
        self.settle(hash);
        let id = record.clone();
        let slot = Slot {
            hash,
            record,
            entry: entry.map_or_else(Entry::new, |entry| Entry::from(Arc::new(entry))),
            epoch: self.epoch,
        };
        self.slots.put(slot, |known| known.is(hash, &id.org.id));
    }

    /// Takes over all of another table, compiled or not.
    pub(super) fn adopt(&mut self, other: &Self) {
        for (bucket, place, slot) in other.slots.places() {
            let slot = Slot {
                entry: other.entry(bucket, place, slot).cloned().unwrap_or_default(),
                epoch: self.epoch,
                ..slot.clone()
            };
            let (hash, record) = (slot.hash, slot.record.clone());
            self.slots.put(slot, |known| known.is(hash, &record.org.id));
        }
    }

    /// Takes an org out.
    pub(super) fn remove(&mut self, hash: IdHash, id: &str) {
        self.settle(hash);
        self.slots.remove(hash.short(), |slot| slot.is(hash, id));
    }

    /// The same orgs, with nothing compiled yet.
    pub(super) fn uncompiled(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            epoch: self.epoch + 1,
            anew: (0..self.slots.buckets()).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entries that are compiled.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &OrgEntry> {
        let places = self.slots.places();
        let entries = places.filter_map(|(bucket, place, slot)| self.entry(bucket, place, slot)?.get());
        entries.map(|entry| &**entry)
    }

    /// What the orgs were made from.
    pub(super) fn records(&self) -> impl Iterator<Item = &Arc<OrgRecord>> {
        self.slots.iter().map(|slot| &slot.record)
    }

    /// Where the entry of a slot is in this epoch, if any of its bucket was asked for.
    fn entry<'t>(&'t self, bucket: usize, place: usize, slot: &'t Slot) -> Option<&'t Entry> {
        if slot.epoch == self.epoch {
            return Some(&slot.entry);
        }
        self.anew[bucket].get().map(|entries| &entries[place])
    }

    /// Brings the slots of a hash's bucket into this epoch, before one of them is changed or moved.
    fn settle(&mut self, hash: IdHash) {
        let (bucket, epoch) = (self.slots.place(hash.short()), self.epoch);
        if self.slots.bucket(bucket).iter().all(|slot| slot.epoch == epoch) {
            return;
        }
        let entries = self.anew[bucket].get();
        self.slots.change(bucket, |place, slot| {
            if slot.epoch != epoch {
                slot.entry = entries.map_or_else(Entry::new, |entries| entries[place].clone());
                slot.epoch = epoch;
            }
        });
    }
}

impl Slot {
    /// The hash is keyed and 128 bits long; the id is compared all the same, since it costs little.
    #[inline]
    fn is(&self, hash: IdHash, id: &str) -> bool {
        self.hash == hash && self.record.org.id == id
    }
}

impl Hashed for Slot {
    fn hash(&self) -> u64 {
        self.hash.short()
    }
}
