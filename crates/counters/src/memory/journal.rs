//! What a node has left of each quota that a ledger keeps, in memory that outlives the process (docs/ledger.md).
//!
//! A file in a file system that is memory, mapped: a table of slots, found by a counter's key. Whoever charges a quota
//! writes what is left of it into its slot, one word, under the lock of the counter's shard. All else in a slot is
//! written under the same lock, and slots are given and taken by one thread, the keeper of the ledger.
//!
//! A slot has two sides, of which one counts. What belongs together is written to the other, and then the sides change
//! places by one word: whenever the process is killed, one side is whole.

mod home;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, Read, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use serde::{Deserialize, Serialize};
use tollgate_core::{CounterKey, Identity};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

pub use home::{Ended, Home};

/// What a journal's first word says: the bytes of "tollgat2".
const MAGIC: u64 = u64::from_be_bytes(*b"tollgat2");
const WORD: usize = size_of::<u64>();

/// The words of the head, which fills a page. What follows these says where it is [settled](home).
const HEAD: usize = 512;
const HEAD_BOOT: usize = 1;
const HEAD_RUN: usize = 3;
const HEAD_NUMBER: usize = 4;

/// Slots, and the words of each: two lines, of which a charge touches the first alone.
const SLOTS: usize = 1 << 16;
const SLOT: usize = 16;
/// The word of the counter's identity; 0 in a free slot. The other half of it says where to look.
const IDENTITY: usize = 0;
/// Which side counts, by whether it is even or odd.
const TURN: usize = 1;
const NAME: usize = 2;
/// What is left of the quota, on each side.
const LEFT: [usize; 2] = [4, 5];
/// Where the other words of each side begin.
const SIDE: [usize; 2] = [6, 11];
/// The other words of a side, from where they begin.
const GENERATION: usize = 0;
const SPAN: usize = 1;
/// One more than the place in the exchange that is under way; 0 if none is.
const PLACE: usize = 2;
const TELLS: usize = 3;
/// What the exchange says is owed, or below 0 what it gives back: whoever owes has nothing to give.
const OWES: usize = 4;
const SIDE_WORDS: usize = 5;
/// A slot is at most so far from where it is looked for first.
const WINDOW: usize = 8;
const WORDS: usize = HEAD + SLOTS * SLOT;

/// What is noted of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Note {
    /// What the ledger calls it.
    pub name: [u8; 16],
    /// Which period of it; 0 if that is not known.
    pub generation: u64,
    /// What may still be spent; below 0 what was spent beyond that.
    pub left: i64,
    /// The same and what was spent that the ledger was not told yet: what charges do not change.
    pub span: i64,
    /// What the exchange that is under way says of it, if it does.
    pub telling: Option<Telling>,
}

/// What an exchange says of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telling {
    /// Its place among all that the exchange is about.
    pub place: usize,
    /// What was spent, less what was not used after all.
    pub used: i64,
    /// What of that goes beyond what was allowed.
    pub owes: u64,
    /// What is given back. Whoever gives owes nothing.
    pub gives: u64,
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    /// Holds the file open, and so its lock.
    map: MmapRegion<()>,
    path: PathBuf,
}

/// What a run has left that ended before it could give everything back.
#[derive(Debug)]
pub struct Estate {
    /// Which run.
    pub run: u64,
    /// The number of its last exchange that may have been done.
    pub number: i64,
    /// What it noted.
    pub notes: Vec<Note>,
    /// Locked for as long as this is there.
    _file: File,
}

impl Journal {
    /// A new journal of a run.
    pub fn create(path: &Path, run: u64) -> Result<Self> {
        let boot = boot()?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mapped = map(file).inspect_err(|_| _ = std::fs::remove_file(path))?;
        let journal = Self {
            map: mapped,
            path: path.to_owned(),
        };
        for (place, word) in boot.into_iter().enumerate() {
            journal.set(HEAD_BOOT + place, word);
        }
        journal.set(HEAD_RUN, run);
        journal.set(0, MAGIC);
        Ok(journal)
    }

    /// Notes that an exchange begins, before anything of it is.
    pub fn begin(&self, number: i64) {
        self.set(HEAD_NUMBER, number.cast_unsigned());
    }

    /// Notes what was left of a quota by a charge, or by something that was given back. Its counter's shard is locked.
    #[inline]
    pub(super) fn charged(&self, key: CounterKey, left: i64) {
        if let Some(slot) = self.find(key.identity()) {
            self.set(slot + LEFT[self.side(slot)], left.cast_unsigned());
        }
    }

    /// Notes all that is known of a quota; nothing if there is no room for it. Called by one thread alone, with the
    /// counter's shard locked.
    pub fn write(&self, key: CounterKey, note: &Note) {
        let identity = key.identity();
        if let Some(slot) = self.find(identity) {
            self.turn(slot, note);
        } else if let Some(slot) = self.free(identity) {
            let [name, rest] = halves(u128::from_be_bytes(note.name));
            self.set(slot + NAME, name);
            self.set(slot + NAME + 1, rest);
            self.turn(slot, note);
            self.set(slot + IDENTITY, identity.word);
        }
    }

    /// Notes that so much of what was left of a quota is another's now. Its counter's shard is locked.
    pub fn take(&self, key: CounterKey, amount: u64) {
        let Some(slot) = self.find(key.identity()) else {
            return;
        };
        let mut words = [0; SLOT];
        for (place, word) in words.iter_mut().enumerate() {
            *word = self.get(slot + place);
        }
        if let Some(mut note) = read_slot(&words) {
            note.left = note.left.saturating_sub_unsigned(amount);
            note.span = note.span.saturating_sub_unsigned(amount);
            self.turn(slot, &note);
        }
    }

    /// Forgets a quota. Called as [`Self::write`] is.
    pub fn forget(&self, key: CounterKey) {
        if let Some(slot) = self.find(key.identity()) {
            self.set(slot + IDENTITY, 0);
        }
    }

    /// Forgets everything: all was given back.
    pub fn remove(&self) -> Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Writes a note to the side of a slot that does not count, which then does.
    fn turn(&self, slot: usize, note: &Note) {
        let side = 1 - self.side(slot);
        self.set(slot + LEFT[side], note.left.cast_unsigned());
        let words = slot + SIDE[side];
        self.set(words + GENERATION, note.generation);
        self.set(words + SPAN, note.span.cast_unsigned());
        let place = note.telling.map_or(0, |telling| telling.place as u64 + 1);
        self.set(words + PLACE, place);
        if let Some(telling) = note.telling {
            self.set(words + TELLS, telling.used.cast_unsigned());
            let owes = if telling.gives > 0 {
                i64::try_from(telling.gives).map_or(i64::MIN, |gives| -gives)
            } else {
                i64::try_from(telling.owes).unwrap_or(i64::MAX)
            };
            self.set(words + OWES, owes.cast_unsigned());
        }
        self.set(slot + TURN, side as u64);
    }

    /// The side of a slot that counts.
    #[inline]
    fn side(&self, slot: usize) -> usize {
        usize::from(self.get(slot + TURN) % 2 == 1)
    }

    #[inline]
    fn find(&self, identity: Identity) -> Option<usize> {
        window(identity).find(|slot| self.get(slot + IDENTITY) == identity.word)
    }

    fn free(&self, identity: Identity) -> Option<usize> {
        let free = window(identity).find(|slot| self.get(slot + IDENTITY) == 0);
        free.filter(|_| identity.word != 0)
    }

    #[inline]
    fn get(&self, place: usize) -> u64 {
        self.word(place).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline]
    fn set(&self, place: usize, value: u64) {
        #[cfg(test)]
        if tests::is_killed() {
            return;
        }
        if let Some(word) = self.word(place) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline]
    fn word(&self, place: usize) -> Option<&AtomicU64> {
        self.map.get_atomic_ref(place * WORD).ok()
    }
}

impl Estate {
    /// What a run has left in a file, if it has ended and this user began it.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let no_links = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new().read(true).custom_flags(no_links).open(path)?;
        let about = file.metadata()?;
        let own = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
        if !own || about.len() != (WORDS * WORD) as u64 {
            return Ok(None);
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut bytes = Vec::with_capacity(WORDS * WORD);
        file.read_to_end(&mut bytes)?;
        let (words, _) = bytes.as_chunks::<WORD>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        if words.len() != WORDS || words[0] != MAGIC {
            return Ok(None);
        }
        // That of another boot may lack what was written last, so it says nothing.
        let of_this_boot = words[HEAD_BOOT..][..2] == boot()?;
        let slots = words[HEAD..].chunks_exact(SLOT).filter(|_| of_this_boot);
        Ok(Some(Self {
            run: words[HEAD_RUN],
            number: words[HEAD_NUMBER].cast_signed(),
            notes: slots.filter_map(read_slot).collect(),
            _file: file,
        }))
    }
}

/// What a slot says; nothing if it is free.
fn read_slot(slot: &[u64]) -> Option<Note> {
    if slot[IDENTITY] == 0 {
        return None;
    }
    let name = u128::from(slot[NAME]) << 64 | u128::from(slot[NAME + 1]);
    let side = usize::from(slot[TURN] % 2 == 1);
    let words = &slot[SIDE[side]..][..SIDE_WORDS];
    let place = words[PLACE].checked_sub(1);
    let owes = words[OWES].cast_signed();
    Some(Note {
        name: name.to_be_bytes(),
        generation: words[GENERATION],
        left: slot[LEFT[side]].cast_signed(),
        span: words[SPAN].cast_signed(),
        telling: place.map(|place| Telling {
            place: usize::try_from(place).unwrap_or(usize::MAX),
            used: words[TELLS].cast_signed(),
            owes: owes.max(0).cast_unsigned(),
            gives: owes.min(0).unsigned_abs(),
        }),
    })
}

/// Where the slots begin in which an identity may be.
#[inline]
fn window(identity: Identity) -> impl Iterator<Item = usize> {
    let first = identity.half as usize % SLOTS;
    (0..WINDOW).map(move |further| HEAD + (first + further) % SLOTS * SLOT)
}

/// All of its memory is had from the beginning: what can't be had later would end the process.
fn map(file: File) -> Result<MmapRegion<()>> {
    let size = WORDS * WORD;
    file.try_lock().map_err(Error::from)?;
    fallocate(&file, FallocateFlags::empty(), 0, size as u64)?;
    MmapRegion::from_file(FileOffset::new(file, 0), size).map_err(Error::other)
}

/// By which this boot of the machine is known.
fn boot() -> Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.trim().chars().filter(|digit| *digit != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(Error::other)?;
    Ok(halves(number))
}

#[expect(clippy::cast_possible_truncation, reason = "a u128 is split into its halves")]
fn halves(number: u128) -> [u64; 2] {
    [(number >> 64) as u64, number as u64]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use tollgate_core::KeySeed;

    thread_local! {
        /// How many more words are written before the process is killed, as far as the journal can tell.
        static ALIVE_FOR: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Whether this write comes after the kill.
    pub(super) fn is_killed() -> bool {
        let alive_for = ALIVE_FOR.get();
        ALIVE_FOR.set(alive_for.map(|words| words.saturating_sub(1)));
        alive_for == Some(0)
    }

    fn key(number: u64) -> CounterKey {
        CounterKey::new(KeySeed::new(1, 2).id(&number.to_be_bytes()))
    }

    fn note(number: u8) -> Note {
        Note {
            name: [number; 16],
            generation: 3,
            left: i64::from(number),
            span: 100,
            telling: None,
        }
    }

    #[test]
    fn a_run_that_ended_has_left_what_it_noted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::create(&path, 7).unwrap();
        journal.begin(12);
        let telling = Telling {
            place: 4,
            used: -3,
            owes: 0,
            gives: 1,
        };
        journal.write(key(1), &note(1));
        journal.write(key(2), &note(2));
        journal.write(
            key(3),
            &Note {
                telling: Some(telling),
                ..note(3)
            },
        );
        journal.charged(key(1), 40);
        // Nobody has asked for this one.
        journal.charged(key(9), 40);
        journal.forget(key(3));
        journal.write(key(4), &note(4));
        journal.take(key(4), 3);
        assert!(Estate::read(&path).unwrap().is_none(), "it is still written");
        drop(journal);
        let mut left = Estate::read(&path).unwrap().unwrap();
        assert!(Estate::read(&path).unwrap().is_none(), "somebody reads it");
        assert_eq!((left.run, left.number), (7, 12));
        left.notes.sort_by_key(|note| note.name);
        let first = Note { left: 40, ..note(1) };
        let last = Note {
            left: 1,
            span: 97,
            ..note(4)
        };
        assert_eq!(left.notes, [first, note(2), last]);
    }

    #[test]
    fn what_is_told_is_noted_until_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::create(&path, 7).unwrap();
        let told = Note {
            telling: Some(Telling {
                place: 0,
                used: i64::MIN,
                owes: i64::MAX.cast_unsigned(),
                gives: 0,
            }),
            ..note(1)
        };
        journal.write(key(1), &note(1));
        journal.write(key(1), &told);
        let telling = told.telling;
        journal.write(key(2), &Note { telling, ..note(2) });
        journal.write(key(2), &note(2));
        drop(journal);
        let mut left = Estate::read(&path).unwrap().unwrap();
        left.notes.sort_by_key(|note| note.name);
        assert_eq!(left.notes, [told, note(2)]);
    }

    /// What a journal says after it was killed so many words into a change of what it said first.
    fn killed_after(words: usize, first: Option<Note>, change: impl Fn(&Journal)) -> Vec<Note> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::create(&path, 7).unwrap();
        if let Some(first) = first {
            journal.write(key(1), &first);
        }
        ALIVE_FOR.set(Some(words));
        change(&journal);
        ALIVE_FOR.set(None);
        drop(journal);
        Estate::read(&path).unwrap().unwrap().notes
    }

    #[test]
    fn whenever_it_is_killed_a_slot_says_what_it_said_or_what_it_was_to_say() {
        let telling = |owes, gives| Telling {
            place: 3,
            used: 9,
            owes,
            gives,
        };
        let note = |left, span, telling| Note {
            name: [1; 16],
            generation: left,
            left: left.cast_signed(),
            span,
            telling,
        };
        let (old, new) = (note(5, 6, Some(telling(8, 0))), note(7, 20, Some(telling(0, 4))));
        let plain = note(9, 9, None);
        let pairs = [
            (None, old),
            (Some(old), new),
            (Some(new), plain),
            (Some(plain), old),
        ];
        for (before, after) in pairs {
            let said = |words| killed_after(words, before, |journal| journal.write(key(1), &after));
            let [before, after] = [before.into_iter().collect::<Vec<_>>(), vec![after]];
            assert_eq!((said(0), said(usize::MAX)), (before.clone(), after.clone()));
            for words in 0..SLOT {
                let said = said(words);
                assert!(said == before || said == after, "{words}: {said:?}");
            }
        }
        let taken = note(5, 6, old.telling);
        let taken = Note {
            left: 2,
            span: 3,
            ..taken
        };
        for words in 0..SLOT {
            let said = killed_after(words, Some(old), |journal| journal.take(key(1), 3));
            assert!(said == [old] || said == [taken], "{words}: {said:?}");
        }
        let charged = killed_after(usize::MAX, Some(old), |journal| {
            journal.write(key(1), &new);
            journal.charged(key(1), 1);
        });
        assert_eq!(charged, [Note { left: 1, ..new }]);
    }

    #[test]
    fn another_boot_or_something_else_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::create(&path, 7).unwrap();
        assert!(Journal::create(&path, 8).is_err(), "it is there");
        journal.set(HEAD_BOOT, 1);
        journal.write(key(1), &note(1));
        drop(journal);
        let left = Estate::read(&path).unwrap().unwrap();
        assert!(left.notes.is_empty());
        std::fs::write(&path, "something else").unwrap();
        assert!(Estate::read(&path).unwrap().is_none());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Estate::read(&link).is_err());
    }

    #[test]
    fn what_there_is_no_room_for_is_not_noted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::create(&path, 7).unwrap();
        let all = SLOTS as u64 * 2;
        for number in 0..all {
            journal.write(key(number), &note(1));
        }
        let noted = (0..all).filter(|number| journal.find(key(*number).identity()).is_some());
        let noted = noted.count();
        assert!(noted > SLOTS * 9 / 10 && noted <= SLOTS, "{noted}");
    }
}
