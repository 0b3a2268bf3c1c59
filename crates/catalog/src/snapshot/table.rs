//! Orgs by their hash, the same that keys their counters.
//!
//! Only those are in memory that were changed since the node started, or that are in use: these are compiled when they
//! are first asked for, and stay so until something they are made from is changed. All others are
//! [idle](super::idle), and cost next to nothing.
//!
//! A table is never changed. The next one shares with it all that stays the same.

use std::io;
use std::sync::Arc;

use tollgate_core::IdHash;

use super::archive::{Archive, Span};
use super::buckets::{Buckets, Hashed};
use super::idle::Idle;
use super::org::OrgEntry;
use super::policy_values::PolicyValues;
use super::sets::Sets;
use super::woken::Woken;
use crate::model::OrgRecord;

/// What an org is made from.
#[derive(Clone)]
enum Record {
    Held(Arc<OrgRecord>),
    /// It lies in the archive, where it is idle if nothing is compiled of it.
    Filed,
    /// Whatever the archive says, there is none any more.
    Gone,
}

#[derive(Clone)]
struct Slot {
    hash: IdHash,
    record: Record,
    entry: Option<Arc<OrgEntry>>,
}

pub(super) struct OrgTable {
    slots: Arc<Buckets<Slot>>,
    idle: Option<Arc<Idle>>,
    woken: Woken,
    /// What all that is compiled leaves to policies, but for who was woken: a change that does not meet it concerns
    /// nobody.
    left: PolicyValues,
    len: usize,
}

impl OrgTable {
    /// An empty table made for so many orgs.
    pub(super) fn sized(orgs: usize) -> Self {
        Self {
            slots: Arc::new(Buckets::sized(orgs)),
            idle: None,
            woken: Woken::default(),
            left: PolicyValues::default(),
            len: 0,
        }
    }

    /// The same orgs beside those whose records lie in an archive. Who is in both is taken from there.
    pub(super) fn filed(&self, archive: Arc<dyn Archive>, orgs: Vec<(IdHash, Span)>) -> Self {
        let idle = Idle::new(archive, orgs);
        let held = |slot: &&Slot| matches!(slot.record, Record::Held(_)) && !idle.knows(slot.hash);
        let settled = self.settled();
        let slots = Buckets::of(settled.slots.iter().filter(held).cloned(), settled.slots.len());
        Self {
            len: slots.len() + idle.len(),
            slots: Arc::new(slots),
            idle: Some(Arc::new(idle)),
            ..settled
        }
    }

    /// What is known of an org, compiled against what all orgs that are decided alike have in common.
    #[inline]
    pub(super) fn get<'t>(&'t self, hash: IdHash, id: &str, sets: &'t Sets) -> Option<&'t OrgEntry> {
        // The hash is keyed and 128 bits long: no two ids that anybody can find have the same.
        match self.slots.find(hash.short(), |slot| slot.hash == hash) {
            Some(Slot {
                entry: Some(entry), ..
            }) => Some(entry),
            None if self.idle.is_none() => None,
            slot => self.wake(slot, hash, id, sets),
        }
    }

    #[inline(never)]
    fn wake<'t>(
        &'t self,
        slot: Option<&Slot>,
        hash: IdHash,
        id: &str,
        sets: &'t Sets,
    ) -> Option<&'t OrgEntry> {
        if let Some(entry) = self.woken.get(hash) {
            return Some(entry);
        }
        let compiled = match slot.map(|slot| &slot.record) {
            Some(Record::Gone) => return None,
            Some(Record::Held(record)) => sets.compile_known(record),
            Some(Record::Filed) | None => match self.idle.as_ref()?.record(hash, id) {
                Ok(record) => sets.compile_known(&record?),
                // Not kept: the next request tries again.
                Err(_) => return Some(&sets.active.unreadable),
            },
        };
        Some(self.woken.put(hash, &Arc::new(compiled)))
    }

    /// The same table, in which those who were asked for since it was made are found at once.
    pub(super) fn settled(&self) -> Self {
        let (mut slots, mut left) = (self.slots.clone(), self.left.clone());
        if self.woken.len() > 0 {
            let slots = Arc::make_mut(&mut slots);
            for (hash, entry) in self.woken.iter() {
                let known = slots.find(hash.short(), |slot| slot.hash == hash);
                let slot = Slot {
                    hash,
                    record: known.map_or(Record::Filed, |slot| slot.record.clone()),
                    entry: Some(entry.clone()),
                };
                slots.put(slot, |known| known.hash == hash);
                left.add_all(&entry.left);
            }
        }
        Self {
            slots,
            idle: self.idle.clone(),
            woken: Woken::default(),
            left,
            len: self.len,
        }
    }

    /// Whether anybody was asked for since it was made.
    pub(super) fn is_settled(&self) -> bool {
        self.woken.len() == 0
    }

    /// Puts an org in place of what was there of it, with its entry if that is compiled already.
    pub(super) fn put(&mut self, hash: IdHash, record: Arc<OrgRecord>, entry: Option<OrgEntry>) {
        self.len += usize::from(!self.knows(hash));
        if let Some(entry) = &entry {
            self.left.add_all(&entry.left);
        }
        self.insert(Slot {
            hash,
            record: Record::Held(record),
            entry: entry.map(Arc::new),
        });
    }

    /// Takes an org out.
    pub(super) fn remove(&mut self, hash: IdHash) {
        self.len -= usize::from(self.knows(hash));
        if self.idle.as_ref().is_some_and(|idle| idle.knows(hash)) {
            self.insert(Slot {
                hash,
                record: Record::Gone,
                entry: None,
            });
        } else {
            Arc::make_mut(&mut self.slots).remove(hash.short(), |slot| slot.hash == hash);
        }
    }

    /// The same orgs after a change of some policies. Those whom it concerns are compiled anew when they are asked for.
    pub(super) fn after(&self, changed: &PolicyValues) -> Self {
        let settled = self.settled();
        if !settled.left.meet(changed) {
            return settled;
        }
        settled.without(|entry| entry.left.meet(changed))
    }

    /// The same orgs, with nothing compiled.
    pub(super) fn cooled(&self) -> Self {
        self.settled().without(|_| true)
    }

    fn without(self, stale: impl Fn(&OrgEntry) -> bool) -> Self {
        let kept = self.slots.iter().filter_map(|slot| match &slot.entry {
            Some(entry) if stale(entry) => match slot.record {
                Record::Filed => None,
                _ => Some(Slot {
                    entry: None,
                    ..slot.clone()
                }),
            },
            _ => Some(slot.clone()),
        });
        let slots = Buckets::of(kept, self.slots.len());
        let entries = slots.iter().filter_map(|slot| slot.entry.as_deref());
        let mut left = PolicyValues::default();
        entries.for_each(|entry| left.add_all(&entry.left));
        Self {
            slots: Arc::new(slots),
            left,
            ..self
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entries that are compiled.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &OrgEntry> {
        let settled = self.slots.iter().filter_map(|slot| slot.entry.as_deref());
        settled.chain(self.woken.iter().map(|(_, entry)| &**entry))
    }

    /// What the orgs were made from, without some of those that don't mention a word.
    pub(super) fn records_mentioning(&self, word: &str) -> impl Iterator<Item = io::Result<Arc<OrgRecord>>> {
        let held = self.slots.iter().filter_map(|slot| match &slot.record {
            Record::Held(record) => Some(Ok(record.clone())),
            _ => None,
        });
        let changed = |hash: u64| {
            let is = |slot: &Slot| slot.hash.short() == hash && !matches!(slot.record, Record::Filed);
            self.slots.find(hash, is).is_some()
        };
        let filed = self
            .idle
            .iter()
            .flat_map(move |idle| idle.mentioning(word, changed));
        held.chain(filed.map(|record| record.map(Arc::new)))
    }

    fn knows(&self, hash: IdHash) -> bool {
        match self.slots.find(hash.short(), |slot| slot.hash == hash) {
            Some(slot) => !matches!(slot.record, Record::Gone),
            None => self.idle.as_ref().is_some_and(|idle| idle.knows(hash)),
        }
    }

    fn insert(&mut self, slot: Slot) {
        let hash = slot.hash;
        Arc::make_mut(&mut self.slots).put(slot, |known| known.hash == hash);
    }
}

impl Hashed for Slot {
    fn hash(&self) -> u64 {
        self.hash.short()
    }
}
