//! Orgs by their hash, the same that keys their counters.
//!
//! An org's entry is compiled when it is first asked for, so that a change of what all orgs have in common costs
//! nothing for those that are idle.

use std::sync::{Arc, OnceLock};

use tollgate_core::IdHash;

use super::buckets::{Buckets, Hashed};
use super::common::Common;
use super::org::OrgEntry;
use crate::model::OrgRecord;

#[derive(Clone)]
struct Slot {
    hash: IdHash,
    record: Arc<OrgRecord>,
    entry: OnceLock<Arc<OrgEntry>>,
}

#[derive(Clone)]
pub(super) struct OrgTable(Buckets<Slot>);

impl OrgTable {
    /// An empty table made for so many orgs.
    pub(super) fn sized(orgs: usize) -> Self {
        Self(Buckets::sized(orgs))
    }

    /// What is known of an org, compiled against what all orgs have in common.
    #[inline]
    pub(super) fn get(&self, hash: IdHash, id: &str, common: &Common) -> Option<&OrgEntry> {
        let slot = self.0.find(hash.short(), |slot| slot.is(hash, id))?;
        let compiled = || Arc::new(common.compile_known(&slot.record));
        Some(slot.entry.get_or_init(compiled))
    }

    /// What an org was made from.
    pub(super) fn record(&self, hash: IdHash, id: &str) -> Option<&Arc<OrgRecord>> {
        let slot = self.0.find(hash.short(), |slot| slot.is(hash, id));
        slot.map(|slot| &slot.record)
    }

    /// Puts an org in place of what was there of it, with its entry if that is compiled already.
    pub(super) fn put(&mut self, hash: IdHash, record: Arc<OrgRecord>, entry: Option<OrgEntry>) {
        let id = record.clone();
        let entry = entry.map_or_else(OnceLock::new, |entry| OnceLock::from(Arc::new(entry)));
        let slot = Slot { hash, record, entry };
        self.0.put(slot, |known| known.is(hash, &id.org.id));
    }

    /// Takes over all of another table, compiled or not.
    pub(super) fn adopt(&mut self, other: &Self) {
        for slot in other.0.iter() {
            self.0
                .put(slot.clone(), |known| known.is(slot.hash, &slot.record.org.id));
        }
    }

    /// Takes an org out.
    pub(super) fn remove(&mut self, hash: IdHash, id: &str) {
        self.0.remove(hash.short(), |slot| slot.is(hash, id));
    }

    /// The same orgs, with nothing compiled yet.
    pub(super) fn uncompiled(&self) -> Self {
        let mut fresh = Self::sized(self.len());
        for slot in self.0.iter() {
            fresh.put(slot.hash, slot.record.clone(), None);
        }
        fresh
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries that are compiled.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &OrgEntry> {
        self.0
            .iter()
            .filter_map(|slot| slot.entry.get())
            .map(|entry| &**entry)
    }

    /// What the orgs were made from.
    pub(super) fn records(&self) -> impl Iterator<Item = &Arc<OrgRecord>> {
        self.0.iter().map(|slot| &slot.record)
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
