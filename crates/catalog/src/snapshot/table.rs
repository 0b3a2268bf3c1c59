//! Orgs by their hash, the same that keys their counters.
//!
//! Records are kept in a table that is shared from one snapshot to the next: in memory, or for orgs that were not
//! changed since they were read, in an archive on disk. What is compiled of them is another matter: an org's entry is
//! made when it is first asked for, so that a change of what all orgs have in common, which begins a new *epoch*,
//! costs nothing for those that are idle.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_core::IdHash;

use super::archive::{Archive, Span};
use super::buckets::{Buckets, Hashed};
use super::epochs::Epochs;
use super::org::OrgEntry;
use super::sets::Sets;
use super::warm::Warm;
use crate::model::OrgRecord;

type Entry = OnceLock<Arc<OrgEntry>>;

/// What an org is made from, or where that lies.
#[derive(Clone)]
pub(super) enum Record {
    Held(Arc<OrgRecord>),
    Filed(Span),
}

impl Record {
    /// Whether it is this very one, and not one that says the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(one), Self::Held(other)) => Arc::ptr_eq(one, other),
            (Self::Filed(one), Self::Filed(other)) => one == other,
            _ => false,
        }
    }
}

#[derive(Clone)]
struct Slot {
    hash: IdHash,
    record: Record,
    entry: Entry,
    /// The epoch of the table that its entry belongs to.
    epoch: u64,
}

#[derive(Clone)]
pub(super) struct OrgTable {
    /// Shared from one epoch to the next.
    slots: Arc<Buckets<Slot>>,
    epochs: Epochs,
    /// The entries in this epoch of slots that are of an earlier one: for each bucket one for each of its places.
    anew: Arc<[OnceLock<Box<[Entry]>>]>,
    /// Where filed records lie.
    archive: Option<Arc<dyn Archive>>,
    /// What was last compiled, in this epoch or before. It is of this archive.
    warm: Arc<Warm>,
    /// How many entries were compiled since all were forgotten.
    compiled: Arc<AtomicUsize>,
}

impl OrgTable {
    /// An empty table made for so many orgs.
    pub(super) fn sized(orgs: usize) -> Self {
        Self {
            slots: Arc::new(Buckets::sized(orgs)),
            epochs: Epochs::begin(),
            anew: Arc::default(),
            archive: None,
            warm: Arc::default(),
            compiled: Arc::default(),
        }
    }

    /// A table of orgs whose records lie in an archive.
    pub(super) fn filed(archive: Arc<dyn Archive>, orgs: &[(IdHash, Span)]) -> Self {
        let mut table = Self::sized(orgs.len());
        for (hash, span) in orgs {
            table.insert(*hash, Record::Filed(*span), Entry::new());
        }
        Arc::make_mut(&mut table.slots).shrink();
        Self {
            archive: Some(archive),
            ..table
        }
    }

    /// What is known of an org, compiled against what all orgs that are decided alike have in common.
    #[inline]
    pub(super) fn get<'t>(&'t self, hash: IdHash, id: &str, sets: &'t Sets) -> Option<&'t OrgEntry> {
        let (bucket, place, slot) = self.slots.find_at(hash.short(), |slot| slot.is(hash, id))?;
        let entry = if slot.epoch == self.epochs.number() {
            &slot.entry
        } else {
            let places = self.slots.bucket(bucket).len();
            let fresh = || (0..places).map(|_| Entry::new()).collect();
            &self.anew[bucket].get_or_init(fresh)[place]
        };
        match entry.get() {
            Some(entry) => Some(entry),
            None => Some(self.compile(slot, entry, sets)),
        }
    }

    #[cold]
    fn compile<'t>(&self, slot: &Slot, entry: &'t Entry, sets: &'t Sets) -> &'t OrgEntry {
        if let Some(known) = self.warm.get(slot.hash, &slot.record, &self.epochs) {
            return entry.get_or_init(|| known);
        }
        match self.record(slot) {
            Ok(record) => entry.get_or_init(|| {
                self.compiled.fetch_add(1, Ordering::Relaxed);
                let compiled = Arc::new(sets.compile_known(&record));
                let epoch = self.epochs.number();
                self.warm
                    .put(slot.hash, slot.record.clone(), epoch, compiled.clone());
                compiled
            }),
            // Not kept: the next request tries again.
            Err(_) => &sets.active.unreadable,
        }
    }

    /// How many orgs were compiled since all were forgotten.
    pub(super) fn compiled_count(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
    }

    fn record(&self, slot: &Slot) -> io::Result<Arc<OrgRecord>> {
        match (&slot.record, &self.archive) {
            (Record::Held(record), _) => Ok(record.clone()),
            (Record::Filed(span), Some(archive)) => archive.record(*span).map(Arc::new),
            (Record::Filed(_), None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Puts an org in place of what was there of it, with its entry if that is compiled already.
    pub(super) fn put(&mut self, hash: IdHash, record: Arc<OrgRecord>, entry: Option<OrgEntry>) {
        if self.slots.outgrown() {
            // What is compiled goes by places, and those change.
            let mut larger = Self {
                epochs: self.epochs.clone(),
                warm: self.warm.clone(),
                compiled: self.compiled.clone(),
                ..Self::sized(self.len() * 2)
            };
            larger.adopt(self);
            *self = larger;
        }
        self.settle(hash);
        let entry = entry.map_or_else(Entry::new, |entry| Entry::from(Arc::new(entry)));
        self.insert(hash, Record::Held(record), entry);
    }

    fn insert(&mut self, hash: IdHash, record: Record, entry: Entry) {
        let slot = Slot {
            hash,
            record,
            entry,
            epoch: self.epochs.number(),
        };
        // The hash is keyed and 128 bits long: no two ids that anybody can find have the same.
        Arc::make_mut(&mut self.slots).put(slot, |known| known.hash == hash);
    }

    /// Takes over all of another table that this one does not know, compiled or not. At most one of them has an
    /// archive.
    pub(super) fn adopt(&mut self, other: &Self) {
        self.archive = self.archive.take().or_else(|| other.archive.clone());
        for (bucket, place, slot) in other.slots.places() {
            if self
                .slots
                .find(slot.hash.short(), |known| known.hash == slot.hash)
                .is_none()
            {
                let entry = other.entry(bucket, place, slot).cloned().unwrap_or_default();
                self.insert(slot.hash, slot.record.clone(), entry);
            }
        }
    }

    /// Takes an org out.
    pub(super) fn remove(&mut self, hash: IdHash, id: &str) {
        self.settle(hash);
        Arc::make_mut(&mut self.slots).remove(hash.short(), |slot| slot.is(hash, id));
    }

    /// The same orgs in the next epoch, in which only these policies have other values; `None` if more has changed.
    pub(super) fn next(&self, changed: Option<Vec<u32>>) -> Self {
        Self {
            epochs: self.epochs.next(changed),
            anew: (0..self.slots.buckets()).map(|_| OnceLock::new()).collect(),
            ..self.clone()
        }
    }

    /// The same orgs, with nothing compiled.
    pub(super) fn cooled(&self) -> Self {
        Self {
            warm: Arc::default(),
            compiled: Arc::default(),
            ..self.next(None)
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

    /// What the orgs were made from, without some of those that don't mention a word.
    pub(super) fn records_mentioning(&self, word: &str) -> impl Iterator<Item = io::Result<Arc<OrgRecord>>> {
        self.slots
            .iter()
            .filter_map(move |slot| match (&slot.record, &self.archive) {
                (Record::Filed(span), Some(archive)) => {
                    let record = archive.record_mentioning(*span, word).transpose()?;
                    Some(record.map(Arc::new))
                }
                _ => Some(self.record(slot)),
            })
    }

    /// Where the entry of a slot is in this epoch, if any of its bucket was asked for.
    fn entry<'t>(&'t self, bucket: usize, place: usize, slot: &'t Slot) -> Option<&'t Entry> {
        if slot.epoch == self.epochs.number() {
            return Some(&slot.entry);
        }
        self.anew[bucket].get().map(|entries| &entries[place])
    }

    /// Brings the slots of a hash's bucket into this epoch, before one of them is changed or moved.
    fn settle(&mut self, hash: IdHash) {
        let (bucket, epoch) = (self.slots.place(hash.short()), self.epochs.number());
        if self.slots.bucket(bucket).iter().all(|slot| slot.epoch == epoch) {
            return;
        }
        let entries = self.anew[bucket].get();
        Arc::make_mut(&mut self.slots).change(bucket, |place, slot| {
            if slot.epoch != epoch {
                slot.entry = entries.map_or_else(Entry::new, |entries| entries[place].clone());
                slot.epoch = epoch;
            }
        });
    }
}

impl Slot {
    /// The id is compared where that costs little.
    #[inline]
    fn is(&self, hash: IdHash, id: &str) -> bool {
        self.hash == hash
            && match &self.record {
                Record::Held(record) => record.org.id == id,
                Record::Filed(_) => true,
            }
    }
}

impl Hashed for Slot {
    fn hash(&self) -> u64 {
        self.hash.short()
    }
}
