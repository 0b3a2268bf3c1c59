//! Charges that may be given back: held until somebody says what was really used.

use smallvec::SmallVec;
use tollgate_core::{Cell, CounterKey, Level, Outcome, Timestamp, Whence};

use super::bound::Bound;
use super::front::Front;
use super::{Many, MemoryStore, shard_index};

/// What was charged to one counter. It is [released](MemoryStore::release) once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The level's place in its stack. Behind the stack are counters that only stood in for others.
    pub place: usize,
    /// Which counter.
    pub key: CounterKey,
    /// Where it lives.
    pub home: u64,
    /// How much.
    pub cost: u64,
    /// Where it lies in the counter.
    pub whence: Whence,
    /// Its number among a bucket's.
    ticket: u64,
}

/// All that a stack was charged.
pub type Holds = SmallVec<[Held; 4]>;

/// A bound that also has what is charged held.
pub(super) struct Holding<'a, B> {
    pub(super) bound: B,
    pub(super) holds: &'a mut Holds,
}

impl<B: Bound> Bound for Holding<'_, B> {
    const HOLDS: bool = true;

    fn look(&mut self, place: usize, level: &Level<'_>, outcome: &Outcome) {
        self.bound.look(place, level, outcome);
    }

    fn is_short(&mut self, allowed: bool) -> bool {
        self.bound.is_short(allowed)
    }

    fn charged(&mut self, place: usize, level: &Level<'_>, cell: Cell) {
        self.bound.charged(place, level, cell);
    }

    fn held(&mut self, held: Held) {
        self.holds.push(held);
    }
}

impl MemoryStore {
    /// Gives so much of each charge back as still counts where it was charged, all of them at once. None is held any
    /// longer.
    pub fn release(&self, backs: &[(Held, u64)], now: Timestamp) {
        let Many(mut shards) = self.lock_homes(backs.iter().map(|(held, _)| held.home));
        for (index, shard) in &mut shards {
            let here = backs.iter().filter(|(held, _)| shard_index(held.home) == *index);
            for (held, back) in here {
                shard.release(held, (*back).min(held.cost), now);
                self.note(shard, held.key);
            }
            self.account(shard);
        }
    }
}

/// Sees what a charge does to those that a bucket may be given back, and has it held if it is to be.
#[cold]
pub(super) fn trace<B: Bound>(
    shard: &mut Front,
    place: usize,
    level: &Level<'_>,
    charged: Cell,
    bound: &mut B,
) {
    let (owed, whence) = (charged.debt(), level.rule.whence(charged));
    let mut ticket = 0;
    if let Whence::Debt { window_ns } = whence {
        let own = u128::from(level.cost) * u128::from(window_ns);
        shard.dip(level.key, owed.saturating_sub(own));
        if B::HOLDS {
            ticket = shard.open(level.key, owed);
        }
    }
    if B::HOLDS {
        bound.held(Held {
            place,
            key: level.key,
            home: level.home,
            cost: level.cost,
            whence,
            ticket,
        });
    }
}

impl Front {
    /// Gives back what still counts of a charge, and holds it no longer.
    fn release(&mut self, held: &Held, tokens: u64, now: Timestamp) {
        if let Whence::Entry { at } = held.whence {
            return self.forgive(held.key, at, tokens);
        }
        let found = self.find(held.key);
        if let Whence::Debt { window_ns } = held.whence {
            let owed = found.map_or(0, |(_, cell)| cell.debt());
            let unused = u128::from(tokens) * u128::from(window_ns);
            let back = self.close(held.key, held.ticket, unused.min(owed));
            if let Some((found, cell)) = found {
                self.amend(found, Cell::owing(owed - back, cell.as_of()));
            }
        } else if let Some((found, cell)) = found
            && let Some(cell) = held.whence.less(cell, tokens, now)
        {
            self.amend(found, cell);
        }
    }
}
