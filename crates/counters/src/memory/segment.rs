//! A small open-addressed table of cells: the unit that grows, splits and is swept.
//!
//! Six entries and their states make a group of 256 bytes, four cache lines that a look-up asks for together: it
//! usually waits for memory once, and can tell beforehand that it will. (With groups of three, two look-ups in five went on
//! to the next group, which a processor that works ahead can't foresee.) A segment grows by an eighth at a time, which
//! keeps it 70 to 80 percent full, and never holds more than [`Segment::MAX`] cells, which bounds what a single growth or
//! split can cost.

use tollgate_core::{Cell, Identity};

const SLOTS: usize = 6;
const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
/// A removed slot of a group that was once full: look-ups must go on past it.
const GRAVE: u8 = 2;

/// The parts of the identity stand apart, so that no gap is left between them.
#[derive(Clone, Copy)]
struct Entry {
    word: u64,
    half: u32,
    /// The tick from which on the cell may be forgotten.
    expires: u32,
    cell: Cell,
}

#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Group {
    states: [u8; SLOTS],
    entries: [Entry; SLOTS],
}

const EMPTY_GROUP: Group = Group {
    states: [EMPTY; SLOTS],
    entries: [Entry {
        word: 0,
        half: 0,
        expires: 0,
        cell: Cell([0; 3]),
    }; SLOTS],
};

impl Entry {
    #[inline]
    fn identity(&self) -> Identity {
        Identity {
            word: self.word,
            half: self.half,
        }
    }
}

impl Group {
    /// The place of an entry, and its cell. All are compared before any is chosen: to choose by what the first line says would be to
    /// wait for the others after it. Half a word of each tells them apart, but for one look-up in a million or so.
    #[inline]
    fn find(&self, identity: Identity) -> Option<(usize, Cell)> {
        let is = |index: usize| u32::from(self.entries[index].half == identity.half) << index;
        let alike = (0..SLOTS).fold(0, |alike, index| alike | is(index));
        let index = alike.trailing_zeros() as usize;
        if let Some(cell) = self.at(index, identity) {
            return Some((index, cell));
        }
        if alike.count_ones() > 1 {
            return (0..SLOTS).find_map(|index| Some((index, self.at(index, identity)?)));
        }
        None
    }

    #[inline]
    fn at(&self, index: usize, identity: Identity) -> Option<Cell> {
        let entry = self.entries.get(index)?;
        (entry.identity() == identity && self.states[index] == TAKEN).then_some(entry.cell)
    }
}

/// Where a cell was found: its group, and in the last bits its place there. Good until the segment is next inserted into
/// or swept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot(pub(super) u32);

const INDEX_BITS: u32 = 3;

impl Slot {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a segment has far fewer groups than 2^29"
    )]
    #[inline]
    fn new(group: usize, index: usize) -> Self {
        Self((group as u32) << INDEX_BITS | index as u32)
    }

    #[inline]
    fn group(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    #[inline]
    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

#[derive(Default)]
pub(super) struct Segment {
    groups: Box<[Group]>,
    len: usize,
    graves: usize,
}

impl Segment {
    /// The most cells a segment holds before it is split.
    pub(super) const MAX: usize = 4096;

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[expect(
        clippy::inline_always,
        reason = "what it finds need not be written down to be handed over"
    )]
    #[inline(always)]
    pub(super) fn find(&self, identity: Identity) -> Option<(Slot, Cell)> {
        let mut group = home(identity, self.groups.len());
        for _ in 0..self.groups.len() {
            let candidates = &self.groups[group];
            if let Some((index, cell)) = candidates.find(identity) {
                return Some((Slot::new(group, index), cell));
            }
            if candidates.states.contains(&EMPTY) {
                return None;
            }
            group = next(group, self.groups.len());
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, at: Slot) -> Cell {
        self.groups[at.group()].entries[at.index()].cell
    }

    /// The tick from which on a cell may be forgotten.
    pub(super) fn expires(&self, at: Slot) -> u32 {
        self.groups[at.group()].entries[at.index()].expires
    }

    #[inline]
    pub(super) fn set(&mut self, at: Slot, cell: Cell, expires: u32) {
        let entry = self.entry(at);
        entry.cell = cell;
        entry.expires = expires;
    }

    pub(super) fn amend(&mut self, at: Slot, cell: Cell) {
        self.entry(at).cell = cell;
    }

    #[inline]
    fn entry(&mut self, at: Slot) -> &mut Entry {
        &mut self.groups[at.group()].entries[at.index()]
    }

    /// Adds a cell that is not there yet.
    pub(super) fn insert(&mut self, identity: Identity, cell: Cell, expires: u32) {
        if self.len + self.graves >= room(self.groups.len()) {
            // Graves alone may have filled it: then a rebuild of the same size is enough.
            self.rebuild(groups_for(self.len + 1));
        }
        self.place(Entry {
            word: identity.word,
            half: identity.half,
            expires,
            cell,
        });
    }

    /// Forgets the cells of one group that have expired; each is handed to `forgotten`.
    pub(super) fn sweep(&mut self, group: usize, now_tick: u32, mut forgotten: impl FnMut(Cell)) {
        let Some(swept) = self.groups.get_mut(group) else {
            return;
        };
        let full = !swept.states.contains(&EMPTY);
        for index in 0..SLOTS {
            if swept.states[index] == TAKEN && swept.entries[index].expires <= now_tick {
                forgotten(swept.entries[index].cell);
                swept.states[index] = if full { GRAVE } else { EMPTY };
                self.graves += usize::from(full);
                self.len -= 1;
            }
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Gives memory back once most of the cells are gone.
    pub(super) fn shrink(&mut self) {
        let fitting = groups_for(self.len);
        if fitting * 2 <= self.groups.len() {
            self.rebuild(fitting);
        }
    }

    /// Moves out the cells for which `leaves` holds.
    pub(super) fn split(&mut self, leaves: impl Fn(Identity) -> bool) -> Self {
        let old = std::mem::take(&mut self.groups);
        let leaving = entries(&old).filter(|entry| leaves(entry.identity())).count();
        let mut other = Self::sized(groups_for(leaving));
        *self = Self::sized(groups_for(self.len - leaving));
        for entry in entries(&old) {
            if leaves(entry.identity()) {
                other.place(*entry);
            } else {
                self.place(*entry);
            }
        }
        other
    }

    fn sized(groups: usize) -> Self {
        Self {
            groups: vec![EMPTY_GROUP; groups].into_boxed_slice(),
            len: 0,
            graves: 0,
        }
    }

    fn rebuild(&mut self, groups: usize) {
        let old = std::mem::replace(self, Self::sized(groups));
        for entry in entries(&old.groups) {
            self.place(*entry);
        }
    }

    fn place(&mut self, entry: Entry) {
        let groups = self.groups.len();
        let mut group = home(entry.identity(), groups);
        loop {
            let candidates = &mut self.groups[group];
            if let Some(index) = candidates.states.iter().position(|state| *state != TAKEN) {
                self.graves -= usize::from(candidates.states[index] == GRAVE);
                candidates.states[index] = TAKEN;
                candidates.entries[index] = entry;
                self.len += 1;
                return;
            }
            group = next(group, groups);
        }
    }
}

fn entries(groups: &[Group]) -> impl Iterator<Item = &Entry> {
    groups.iter().flat_map(|group| {
        let all = group.states.iter().zip(&group.entries);
        all.filter_map(|(state, entry)| (*state == TAKEN).then_some(entry))
    })
}

/// How many cells so many groups hold before it is time to grow.
fn room(groups: usize) -> usize {
    groups * SLOTS * 4 / 5
}

/// The next size of the ladder with room for `cells`, an eighth above the last.
fn groups_for(cells: usize) -> usize {
    let mut groups = 1;
    while room(groups) <= cells {
        groups += (groups / 8).max(1);
    }
    groups
}

#[inline]
fn home(identity: Identity, groups: usize) -> usize {
    ((u64::from(identity.half) * groups as u64) >> 32) as usize
}

#[inline]
fn next(group: usize, groups: usize) -> usize {
    if group + 1 == groups { 0 } else { group + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u32) -> Identity {
        let mixed = n.wrapping_mul(0x9e37_79b9);
        Identity {
            word: u64::from(n) << 32 | u64::from(mixed.rotate_left(13)),
            half: mixed,
        }
    }

    #[test]
    fn finds_what_was_inserted_through_growth_and_sweeps() {
        let mut segment = Segment::default();
        for n in 0..4000 {
            assert!(segment.find(identity(n)).is_none());
            segment.insert(identity(n), Cell([u64::from(n), 0, 0]), n);
        }
        for group in 0..segment.groups() {
            segment.sweep(group, 1999, |cell| assert!(cell.0[0] <= 1999));
        }
        assert_eq!(segment.len(), 2000);
        segment.shrink();
        for n in 0..4000 {
            let found = segment.find(identity(n)).map(|(_, cell)| cell.0[0]);
            assert_eq!(found, (n > 1999).then_some(u64::from(n)));
        }
        for n in 0..2000 {
            segment.insert(identity(n), Cell::default(), 0);
        }
        assert_eq!(segment.len(), 4000);
    }

    #[test]
    fn stays_dense() {
        let mut segment = Segment::default();
        for n in 0..3000 {
            segment.insert(identity(n), Cell::default(), 0);
            if n > 400 {
                assert!(segment.len() * 10 > segment.groups() * SLOTS * 7, "at {n}");
            }
        }
    }

    #[test]
    fn splits_into_two_halves_that_hold_all() {
        let mut segment = Segment::default();
        for n in 0..1000 {
            segment.insert(identity(n), Cell([u64::from(n), 0, 0]), 0);
        }
        let other = segment.split(|identity| (identity.word >> 32) % 3 == 0);
        assert_eq!(segment.len() + other.len(), 1000);
        for n in 0..1000 {
            let side = if n % 3 == 0 { &other } else { &segment };
            assert!(side.find(identity(n)).is_some());
        }
    }
}
