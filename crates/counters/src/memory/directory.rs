//! A table of any size made of segments: it grows by splitting one segment at a time, so no insertion ever
//! pays for the whole, and a sweep walks it in slices.

use tollgate_core::{Cell, Identity};

use super::segment::{Segment, Slot};

/// Where a cell was found: its segment, and in the last bits its slot there. Good until the directory is next inserted
/// into or swept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(u64);

impl Place {
    #[inline]
    fn new(segment: u32, slot: Slot) -> Self {
        Self(u64::from(segment) << 32 | u64::from(slot.0))
    }

    #[inline]
    fn segment(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the last bits are meant")]
    #[inline]
    fn slot(self) -> Slot {
        Slot(self.0 as u32)
    }
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    segment: usize,
    group: usize,
}

/// Its cells have the first `WORDS` of their words, `SLOTS` of them in a group.
pub(super) struct Directory<const WORDS: usize, const SLOTS: usize> {
    /// The segment of each prefix of `depth` bits.
    prefixes: Vec<u32>,
    depth: u32,
    segments: Vec<Segment<WORDS, SLOTS>>,
    /// How many bits of prefix each segment's cells share.
    depths: Vec<u32>,
    cursor: Cursor,
}

impl<const WORDS: usize, const SLOTS: usize> Default for Directory<WORDS, SLOTS> {
    fn default() -> Self {
        Self {
            prefixes: vec![0],
            depth: 0,
            segments: vec![Segment::default()],
            depths: vec![0],
            cursor: Cursor::default(),
        }
    }
}

impl<const WORDS: usize, const SLOTS: usize> Directory<WORDS, SLOTS> {
    /// Prefixes come from 32 bits; past this many a segment just grows, slower to rebuild but right.
    const MAX_DEPTH: u32 = 24;

    #[expect(
        clippy::inline_always,
        reason = "what it finds need not be written down to be handed over"
    )]
    #[inline(always)]
    pub(super) fn find(&self, identity: Identity) -> Option<(Place, Cell)> {
        let segment = self.segment_of(identity);
        let (slot, cell) = self.segments[segment as usize].find(identity)?;
        Some((Place::new(segment, slot), cell))
    }

    #[inline]
    pub(super) fn get(&self, at: Place) -> Cell {
        self.segments[at.segment()].get(at.slot())
    }

    /// Whether a cell is still where it was found.
    pub(super) fn is_at(&self, at: Place, identity: Identity) -> bool {
        let segment = self.segments.get(at.segment());
        segment.is_some_and(|segment| segment.is_at(at.slot(), identity))
    }

    /// Forgets a cell that was found.
    pub(super) fn remove(&mut self, at: Place) {
        self.segments[at.segment()].remove(at.slot());
    }

    /// The tick from which on a cell may be forgotten.
    pub(super) fn expires(&self, at: Place) -> u32 {
        self.segments[at.segment()].expires(at.slot())
    }

    #[inline]
    pub(super) fn set(&mut self, at: Place, cell: Cell, expires: u32) {
        self.segments[at.segment()].set(at.slot(), cell, expires);
    }

    /// Overwrites a cell, which expires when it did.
    pub(super) fn amend(&mut self, at: Place, cell: Cell) {
        self.segments[at.segment()].amend(at.slot(), cell);
    }

    /// Adds a cell that is not there yet.
    pub(super) fn insert(&mut self, identity: Identity, cell: Cell, expires: u32) {
        let mut segment = self.segment_of(identity);
        if self.segments[segment as usize].len() >= Segment::<WORDS, SLOTS>::MAX
            && self.depths[segment as usize] < Self::MAX_DEPTH
        {
            self.split(segment);
            segment = self.segment_of(identity);
        }
        self.segments[segment as usize].insert(identity, cell, expires);
    }

    /// Looks at up to `places` places, but whole groups, from where the last sweep stopped, and hands each cell whose expiry
    /// is over to `forgotten`. Returns whether it came round to the beginning.
    pub(super) fn sweep(
        &mut self,
        places: usize,
        is_over: impl Fn(u32) -> bool,
        mut forgotten: impl FnMut(Cell),
    ) -> bool {
        for _ in 0..places.div_ceil(SLOTS) {
            let segment = &mut self.segments[self.cursor.segment];
            segment.sweep(self.cursor.group, &is_over, &mut forgotten);
            self.cursor.group += 1;
            if self.cursor.group >= segment.groups() {
                segment.shrink();
                self.cursor.group = 0;
                self.cursor.segment += 1;
                if self.cursor.segment == self.segments.len() {
                    self.cursor.segment = 0;
                    return true;
                }
            }
        }
        false
    }

    #[inline]
    fn segment_of(&self, identity: Identity) -> u32 {
        self.prefixes[prefix(identity, self.depth)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 2^24 segments")]
    fn split(&mut self, segment: u32) {
        let depth = self.depths[segment as usize] + 1;
        if depth > self.depth {
            self.prefixes = self.prefixes.iter().flat_map(|at| [*at, *at]).collect();
            self.depth += 1;
        }
        let upper = self.segments[segment as usize].split(|identity| prefix(identity, depth) & 1 == 1);
        let other = self.segments.len() as u32;
        self.segments.push(upper);
        self.depths.push(depth);
        self.depths[segment as usize] = depth;
        let spare = self.depth - depth;
        for (bits, at) in self.prefixes.iter_mut().enumerate() {
            if *at == segment && (bits >> spare) & 1 == 1 {
                *at = other;
            }
        }
    }
}

#[inline]
fn prefix(identity: Identity, depth: u32) -> usize {
    ((identity.word >> 32) >> (32 - depth)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u32) -> Identity {
        let mixed = n.wrapping_mul(0x9e37_79b9);
        Identity {
            word: u64::from(mixed) << 32 | u64::from(n),
            half: mixed.rotate_left(7),
        }
    }

    #[test]
    fn holds_many_segments_and_sweeps_them_in_slices() {
        let mut directory = Directory::<2, 2>::default();
        for n in 0..50_000 {
            directory.insert(identity(n), Cell([u64::from(n), 0, 0]), 10 + n % 2);
        }
        assert!(directory.segments.len() > 10);
        assert!(
            directory
                .segments
                .iter()
                .all(|segment| segment.len() <= Segment::<2, 2>::MAX)
        );
        let mut forgotten = 0;
        while !directory.sweep(
            100,
            |expires| expires <= 10,
            |cell| {
                assert_eq!(cell.0[0] % 2, 0);
                forgotten += 1;
            },
        ) {}
        assert_eq!(forgotten, 25_000);
        for n in 0..50_000 {
            let found = directory.find(identity(n)).map(|(_, cell)| cell.0[0]);
            assert_eq!(found, (n % 2 == 1).then_some(u64::from(n)));
        }
    }
}
