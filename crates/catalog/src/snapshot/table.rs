//! Orgs by their hash, the same that keys their counters.
//!
//! Only those are in memory that were changed since the node started, or that are in use: these are read and compiled
//! when they are first asked for, and stay so until something they are made from is changed. All others are
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
use super::woken::{Awake, Woken};
use crate::model::OrgRecord;

/// What an org is made from.
#[derive(Clone)]
enum Record {
    Held(Arc<OrgRecord>),
    /// It lies in the archive, where it is idle unless it was read.
    Filed,
    /// Whatever the archive says, there is none any more.
    Gone,
}

#[derive(Clone)]
struct Slot {
    hash: IdHash,
    record: Record,
    /// What it was made from as it was read when it was last asked for, and what was made of that.
    read: Option<Arc<OrgRecord>>,
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
        let read = match slot {
            Some(Slot { read: Some(read), .. }) => read.clone(),
            Some(Slot {
                record: Record::Held(record),
                ..
            }) => Arc::new(record.read()),
            Some(Slot {
                record: Record::Gone, ..
            }) => return None,
            _ => match self.idle.as_ref()?.record(hash, id) {
                Ok(record) => Arc::new(record?.read()),
                // Not kept: the next request tries again.
                Err(_) => return Some(&sets.active.unreadable),
            },
        };
        let entry = Arc::new(sets.compile_known(&read));
        Some(self.woken.put(hash, &Awake { read, entry }))
    }

    /// The same table, in which those who were asked for since it was made are found at once.
    pub(super) fn settled(&self) -> Self {
        let (mut slots, mut left) = (self.slots.clone(), self.left.clone());
        if self.woken.len() > 0 {
            let slots = Arc::make_mut(&mut slots);
            for (hash, Awake { read, entry }) in self.woken.iter() {
                let known = slots.find(hash.short(), |slot| slot.hash == hash);
                let slot = Slot {
                    hash,
                    record: known.map_or(Record::Filed, |slot| slot.record.clone()),
                    read: Some(read.clone()),
                    entry: Some(entry.clone()),
                };
                slots.put(slot, |known| known.hash == hash);
                left.extend(entry.left());
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

    /// Puts an org in place of what was there of it, with what was read and compiled of it if it is to be in use.
    pub(super) fn put(
        &mut self,
        hash: IdHash,
        record: Arc<OrgRecord>,
        in_use: Option<(Arc<OrgRecord>, OrgEntry)>,
    ) {
        self.len += usize::from(!self.knows(hash));
        let (read, entry) = in_use.unzip();
        self.left.extend(entry.iter().flat_map(OrgEntry::left));
        self.insert(Slot {
            hash,
            record: Record::Held(record),
            read,
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
                read: None,
                entry: None,
            });
        } else {
            Arc::make_mut(&mut self.slots).remove(hash.short(), |slot| slot.hash == hash);
        }
    }

    /// The same orgs after a change of some policies' values. Limits in which it shows are compiled anew when they are
    /// asked for.
    pub(super) fn after(&self, changed: &PolicyValues) -> Self {
        let settled = self.settled();
        if !changed.meet(settled.left.iter()) {
            return settled;
        }
        settled.with(|slot| {
            let entry = slot.entry.as_ref().filter(|entry| changed.meet(entry.left()))?;
            Some(Slot {
                entry: Some(Arc::new(entry.after(changed))),
                ..slot.clone()
            })
        })
    }

    /// The same orgs, with nothing compiled.
    pub(super) fn forgotten(&self) -> Self {
        let forgotten = self.settled().with(|slot| {
            Some(Slot {
                entry: None,
                ..slot.clone()
            })
        });
        Self {
            left: PolicyValues::default(),
            ..forgotten
        }
    }

    /// The same orgs, all of them idle.
    pub(super) fn cooled(&self) -> Self {
        let changed = self
            .slots
            .iter()
            .filter(|slot| !matches!(slot.record, Record::Filed));
        let slots = changed.map(|slot| Slot {
            read: None,
            entry: None,
            ..slot.clone()
        });
        Self {
            slots: Arc::new(Buckets::of(slots, self.slots.len())),
            idle: self.idle.clone(),
            woken: Woken::default(),
            left: PolicyValues::default(),
            len: self.len,
        }
    }

    fn with(self, now: impl Fn(&Slot) -> Option<Slot>) -> Self {
        Self {
            slots: Arc::new(self.slots.with(now)),
            ..self
        }
    }

    /// How many orgs are in use.
    pub(super) fn in_use(&self) -> usize {
        let read = self.slots.iter().filter(|slot| slot.read.is_some());
        read.count() + self.woken.len()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entries that are compiled.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &OrgEntry> {
        let settled = self.slots.iter().filter_map(|slot| slot.entry.as_deref());
        settled.chain(self.woken.iter().map(|(_, org)| &*org.entry))
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

    /// True if there is such an org.
    pub(super) fn knows(&self, hash: IdHash) -> bool {
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
