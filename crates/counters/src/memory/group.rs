//! Entries of a table that stand together, as many as a look-up compares at once.

use tollgate_core::{Cell, Identity};

/// An entry's expiry says, too, whether there is one.
const EMPTY: u32 = 0;
/// A removed entry of a group that was once full: look-ups must go on past it.
const GRAVE: u32 = 1;
/// The first tick that is one: what expires in the seconds after the epoch does so a little later.
pub(super) const FIRST: u32 = 2;

/// The parts of the identity stand apart, so that no gap is left between them.
#[derive(Clone, Copy)]
pub(super) struct Entry<const WORDS: usize> {
    word: u64,
    half: u32,
    /// The tick from which on the cell may be forgotten.
    pub(super) expires: u32,
    /// Those of the cell's words that are kept. The others are zero.
    words: [u64; WORDS],
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group<const WORDS: usize, const SLOTS: usize> {
    pub(super) entries: [Entry<WORDS>; SLOTS],
}

impl<const WORDS: usize> Entry<WORDS> {
    pub(super) const NONE: Self = Self {
        word: 0,
        half: 0,
        expires: EMPTY,
        words: [0; WORDS],
    };

    #[inline]
    pub(super) fn new(identity: Identity, cell: Cell, expires: u32) -> Self {
        let mut entry = Self {
            word: identity.word,
            half: identity.half,
            ..Self::NONE
        };
        entry.set(cell);
        entry.expire_at(expires);
        entry
    }

    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.expires >= FIRST
    }

    #[inline]
    pub(super) fn identity(&self) -> Identity {
        Identity {
            word: self.word,
            half: self.half,
        }
    }

    #[inline]
    pub(super) fn cell(&self) -> Cell {
        let mut words = [0; 3];
        words[..WORDS].copy_from_slice(&self.words);
        Cell(words)
    }

    #[inline]
    pub(super) fn set(&mut self, cell: Cell) {
        self.words.copy_from_slice(&cell.0[..WORDS]);
    }

    #[inline]
    pub(super) fn expire_at(&mut self, tick: u32) {
        self.expires = tick.max(FIRST);
    }

    pub(super) fn is_grave(&self) -> bool {
        self.expires == GRAVE
    }
}

impl<const WORDS: usize, const SLOTS: usize> Group<WORDS, SLOTS> {
    pub(super) const NONE: Self = Self {
        entries: [Entry::NONE; SLOTS],
    };

    /// The place of an entry, and its cell. All are compared before any is chosen, which spares a branch that can't be
    /// foreseen. Half a word of each tells them apart, but for one look-up in a million or so.
    #[inline]
    pub(super) fn find(&self, identity: Identity) -> Option<(usize, Cell)> {
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
    pub(super) fn at(&self, index: usize, identity: Identity) -> Option<Cell> {
        let entry = self.entries.get(index)?;
        (entry.identity() == identity && entry.is_taken()).then(|| entry.cell())
    }

    /// Whether look-ups end here: it was never full.
    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        self.entries.iter().any(|entry| entry.expires == EMPTY)
    }

    /// Takes an entry out, and says whether it leaves a grave.
    pub(super) fn vacate(&mut self, index: usize) -> bool {
        let full = !self.has_gap();
        self.entries[index].expires = if full { GRAVE } else { EMPTY };
        full
    }
}
