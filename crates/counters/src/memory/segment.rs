//! A small open-addressed table of cells: the unit that grows, splits and is swept.
//!
//! What a look-up costs is the cache lines that it asks for: each puts another one out, often of the very texts that the
//! next requests are about to compare. So entries are small, and stand close: two of those with two words make a group
//! that is one line, and three look-ups in four end with it. (Eight to a group of four lines that are asked for at once
//! end nearly all look-ups, and yet a check among 100,000 keys took longer with them.) Of those with three words six make
//! a group of four lines. A segment grows by an eighth at a time, which keeps it 70 to 80 percent full, and never
//! holds more than [`Segment::MAX`] cells, which bounds what a single growth or split can cost.

use tollgate_core::{Cell, Identity};

use super::group::{Entry, Group};

/// Where a cell was found: its group, and in the last bits its place there. Good until the segment is next inserted into
/// or swept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot(pub(super) u32);

const INDEX_BITS: u32 = 3;
/// A rebuild leaves room for one more cell to so many that are there. Less than a step of the ladder, so that a segment
/// which only grows is as dense as that makes it.
const SPARE: usize = 16;

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

/// Its cells have the first `WORDS` of their words.
pub(super) struct Segment<const WORDS: usize, const SLOTS: usize> {
    groups: Box<[Group<WORDS, SLOTS>]>,
    len: usize,
    graves: usize,
}

impl<const WORDS: usize, const SLOTS: usize> Default for Segment<WORDS, SLOTS> {
    fn default() -> Self {
        Self::sized(0)
    }
}

impl<const WORDS: usize, const SLOTS: usize> Segment<WORDS, SLOTS> {
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
            if candidates.has_gap() {
                return None;
            }
            group = next(group, self.groups.len());
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, at: Slot) -> Cell {
        self.groups[at.group()].entries[at.index()].cell()
    }

    /// Whether a cell is still where it was found.
    pub(super) fn is_at(&self, at: Slot, identity: Identity) -> bool {
        let group = self.groups.get(at.group());
        group.is_some_and(|group| group.at(at.index(), identity).is_some())
    }

    /// The tick from which on a cell may be forgotten.
    pub(super) fn expires(&self, at: Slot) -> u32 {
        self.groups[at.group()].entries[at.index()].expires
    }

    #[inline]
    pub(super) fn set(&mut self, at: Slot, cell: Cell, expires: u32) {
        let entry = self.entry(at);
        entry.set(cell);
        entry.expire_at(expires);
    }

    pub(super) fn amend(&mut self, at: Slot, cell: Cell) {
        self.entry(at).set(cell);
    }

    #[inline]
    fn entry(&mut self, at: Slot) -> &mut Entry<WORDS> {
        &mut self.groups[at.group()].entries[at.index()]
    }

    /// Adds a cell that is not there yet.
    pub(super) fn insert(&mut self, identity: Identity, cell: Cell, expires: u32) {
        if self.len + self.graves >= Self::room(self.groups.len()) {
            // Graves alone may have filled it: then a rebuild of the same size is enough, but only if it brings room for a
            // good many more. Where cells come and go, the next rebuild would follow soon otherwise.
            self.rebuild(Self::groups_for(self.len + self.len / SPARE + 1));
        }
        self.place(Entry::new(identity, cell, expires));
    }

    /// Forgets a cell that was found.
    pub(super) fn remove(&mut self, at: Slot) {
        self.graves += usize::from(self.groups[at.group()].vacate(at.index()));
        self.len -= 1;
    }

    /// Forgets the cells of one group that have expired; each is handed to `forgotten`.
    pub(super) fn sweep(
        &mut self,
        group: usize,
        is_over: impl Fn(u32) -> bool,
        mut forgotten: impl FnMut(Cell),
    ) {
        let Some(swept) = self.groups.get_mut(group) else {
            return;
        };
        for index in 0..SLOTS {
            let entry = &swept.entries[index];
            if entry.is_taken() && is_over(entry.expires) {
                forgotten(entry.cell());
                self.graves += usize::from(swept.vacate(index));
                self.len -= 1;
            }
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Gives memory back once most of the cells are gone.
    pub(super) fn shrink(&mut self) {
        let fitting = Self::groups_for(self.len);
        if fitting * 2 <= self.groups.len() {
            self.rebuild(fitting);
        }
    }

    /// Moves out the cells for which `leaves` holds.
    pub(super) fn split(&mut self, leaves: impl Fn(Identity) -> bool) -> Self {
        let old = std::mem::take(&mut self.groups);
        let leaving = entries(&old).filter(|entry| leaves(entry.identity())).count();
        let mut other = Self::sized(Self::groups_for(leaving));
        *self = Self::sized(Self::groups_for(self.len - leaving));
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
            groups: vec![Group::NONE; groups].into_boxed_slice(),
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

    fn place(&mut self, entry: Entry<WORDS>) {
        let groups = self.groups.len();
        let mut group = home(entry.identity(), groups);
        loop {
            let candidates = &mut self.groups[group].entries;
            if let Some(free) = candidates.iter_mut().find(|entry| !entry.is_taken()) {
                self.graves -= usize::from(free.is_grave());
                *free = entry;
                self.len += 1;
                return;
            }
            group = next(group, groups);
        }
    }

    /// How many cells so many groups hold before it is time to grow.
    fn room(groups: usize) -> usize {
        groups * SLOTS * 4 / 5
    }

    /// The next size of the ladder with room for `cells`, an eighth above the last.
    fn groups_for(cells: usize) -> usize {
        let mut groups = 1;
        while Self::room(groups) <= cells {
            groups += (groups / 8).max(1);
        }
        groups
    }
}

fn entries<const WORDS: usize, const SLOTS: usize>(
    groups: &[Group<WORDS, SLOTS>],
) -> impl Iterator<Item = &Entry<WORDS>> {
    let all = groups.iter().flat_map(|group| &group.entries);
    all.filter(|entry| entry.is_taken())
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
    use tollgate_core::{CounterKey, KeySeed};

    use super::super::group::FIRST;
    use super::*;

    type Slim = Segment<2, 2>;
    type Wide = Segment<3, 6>;

    fn identity(n: u32) -> Identity {
        let name = KeySeed::new(1, 2).id(&n.to_le_bytes());
        CounterKey::new(name).identity()
    }

    #[test]
    fn finds_what_was_inserted_through_growth_and_sweeps() {
        let mut segment = Slim::default();
        for n in 0..4000 {
            assert!(segment.find(identity(n)).is_none());
            segment.insert(identity(n), Cell([u64::from(n), 0, 0]), FIRST + n);
        }
        for group in 0..segment.groups() {
            segment.sweep(
                group,
                |expires| expires <= FIRST + 1999,
                |cell| assert!(cell.0[0] <= 1999),
            );
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
        let mut segment = Slim::default();
        for n in 0..3000 {
            segment.insert(identity(n), Cell::default(), 0);
            if n > 400 {
                assert!(segment.len() * 10 > segment.groups() * 2 * 7, "at {n}");
            }
        }
    }

    #[test]
    fn is_not_rebuilt_again_and_again_where_cells_come_and_go() {
        let mut segment = Slim::default();
        let (mut next, mut rebuilds) = (0, 0);
        // Full but for a few, whatever the number of those: one goes for each that comes.
        while segment.len() < 2000 || segment.len() + 3 < Slim::room(segment.groups()) {
            segment.insert(identity(next), Cell::default(), FIRST);
            next += 1;
        }
        for oldest in 0..10_000 {
            let (at, _) = segment.find(identity(oldest)).unwrap();
            segment.remove(at);
            let graves = segment.graves;
            segment.insert(identity(next), Cell::default(), FIRST);
            next += 1;
            // An insertion fills one grave at most.
            rebuilds += usize::from(graves > 1 && segment.graves + 1 < graves);
        }
        assert!(rebuilds > 0);
        assert!(rebuilds <= 10_000 / (2000 / SPARE), "{rebuilds}");
    }

    #[test]
    fn splits_into_two_halves_that_hold_all() {
        let mut segment = Slim::default();
        for n in 0..1000 {
            segment.insert(identity(n), Cell([u64::from(n), 0, 0]), 0);
        }
        let other = segment.split(|identity| identity.word.is_multiple_of(3));
        assert_eq!(segment.len() + other.len(), 1000);
        for n in 0..1000 {
            let side = if identity(n).word.is_multiple_of(3) {
                &other
            } else {
                &segment
            };
            assert!(side.find(identity(n)).is_some());
        }
    }

    #[test]
    fn a_group_is_one_line_or_four() {
        assert_eq!(size_of::<Group<2, 2>>(), 64);
        assert_eq!(size_of::<Group<3, 6>>(), 256);
    }

    #[test]
    fn a_look_up_ends_soon_even_when_it_is_time_to_grow() {
        let mut segment = Slim::default();
        // As full as it gets: the next one makes it grow.
        let mut n = 0;
        while n < 3000 || segment.len() < Slim::room(segment.groups()) {
            segment.insert(identity(n), Cell::default(), 0);
            n += 1;
        }
        let groups = segment.groups();
        let visited = |at: usize, from: usize| 1 + (at + groups - from) % groups;
        let there = (0..n).map(|n| {
            let (at, _) = segment.find(identity(n)).unwrap();
            visited(at.group(), home(identity(n), groups))
        });
        let there: Vec<usize> = there.collect();
        let gap = |from: usize| (from..from + groups).find(|at| segment.groups[at % groups].has_gap());
        let absent: usize = (0..groups).map(|from| visited(gap(from).unwrap(), from)).sum();
        let at_home = there.iter().filter(|visited| **visited == 1).count();
        assert!(
            at_home * 10 > there.len() * 6,
            "{at_home} of {n} where they belong"
        );
        let all: usize = there.iter().sum();
        assert!(all * 10 < there.len() * 25, "{all} groups for {n}");
        assert!(
            absent < groups * 12,
            "{absent} groups for {groups} that are not there"
        );
    }

    #[test]
    fn keeps_as_many_words_as_it_has() {
        let (mut slim, mut wide) = (Slim::default(), Wide::default());
        slim.insert(identity(1), Cell([1, 2, 0]), FIRST);
        wide.insert(identity(1), Cell([1, 2, 3]), FIRST);
        assert_eq!(slim.find(identity(1)).unwrap().1, Cell([1, 2, 0]));
        assert_eq!(wide.find(identity(1)).unwrap().1, Cell([1, 2, 3]));
    }

    #[test]
    fn what_is_removed_is_gone_and_hides_nothing() {
        let mut segment = Slim::default();
        for n in 0..1000 {
            segment.insert(identity(n), Cell([u64::from(n), 0, 0]), FIRST);
        }
        for n in (0..1000).step_by(3) {
            let (at, _) = segment.find(identity(n)).unwrap();
            assert!(segment.is_at(at, identity(n)) && !segment.is_at(at, identity(n + 1)));
            segment.remove(at);
            assert!(!segment.is_at(at, identity(n)));
        }
        assert_eq!(segment.len(), 666);
        for n in 0..1000 {
            assert_eq!(segment.find(identity(n)).is_some(), n % 3 != 0, "{n}");
        }
    }

    #[test]
    fn what_expires_at_the_epoch_is_not_taken_for_nothing() {
        let mut segment = Slim::default();
        segment.insert(identity(1), Cell([1, 0, 0]), 0);
        let (at, cell) = segment.find(identity(1)).unwrap();
        segment.set(at, cell, 1);
        assert!(segment.find(identity(1)).is_some());
    }
}
