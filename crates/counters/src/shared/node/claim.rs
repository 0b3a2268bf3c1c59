//! Tokens of other homes that a request has while it is not decided yet.
//!
//! A limit decides when its token is taken, out of a lease that lives or in the store, or when the store has none.
//! What takes place between then and the answer is as if the answer were under way.

use smallvec::SmallVec;
use tollgate_core::CounterKey;

use super::super::call::{LeaseId, Micros};
use super::pool::Standing;
use super::{Bug, Node, Shard, Waiter, shard_index};

/// Where a request has tokens from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Out of what the node holds.
    Held,
    /// The store lent them to this very request, at this instant. Nobody else may spend them, at any other time.
    Lent(Micros),
    /// The store had none for it.
    Refused,
}

/// Tokens taken for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) home: u64,
    pub(super) key: CounterKey,
    pub(super) lease: LeaseId,
    pub(super) amount: u64,
    pub(super) source: Source,
}

/// What a request that waited has by now. It is handed back to [`Node::decide`].
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Claim(pub(super) SmallVec<[Kept; 1]>);

impl Claim {
    /// Whether the store has said something about a home to it.
    pub fn is_of(&self, home: u64) -> bool {
        self.0.iter().any(|kept| kept.home == home)
    }

    /// Whether there is something for a counter in it.
    pub(super) fn has(&self, key: CounterKey) -> bool {
        self.0.iter().any(|kept| kept.key == key)
    }

    /// What the store said of a counter.
    pub(super) fn standing(&self, key: CounterKey) -> Option<Standing> {
        let kept = self.0.iter().find(|kept| kept.key == key)?;
        Some(match kept.source {
            Source::Refused => Standing::Refused,
            Source::Held | Source::Lent(_) => Standing::Held,
        })
    }

    /// Of all that is kept for a request, what the store said to it. The rest is put where it came from.
    pub(super) fn of(kept: SmallVec<[Kept; 1]>, rest: &mut Vec<Kept>) -> Self {
        let (held, said): (SmallVec<[Kept; 1]>, _) =
            kept.into_iter().partition(|kept| kept.source == Source::Held);
        rest.extend(held);
        Self(said)
    }
}

impl<W: Waiter> Shard<W> {
    /// Puts tokens that are not needed after all where they came from: into the same lease, if it still lives, or
    /// back to the store.
    pub(super) fn release(&mut self, kept: &Kept) {
        let Some(pool) = self.pools.get_mut(&kept.key) else {
            return;
        };
        match kept.source {
            Source::Held => pool.put_back(kept.lease, kept.amount),
            Source::Lent(at) => {
                if let Some(line) = self.lines.get_mut(&kept.home)
                    && let Some(terms) = line.terms.get(&kept.key).copied()
                {
                    line.give(pool, &terms, kept.lease, kept.amount, at);
                }
            }
            Source::Refused => {}
        }
    }
}

impl<W: Waiter> Node<W> {
    /// Puts back what a request had that will not be decided with it.
    pub fn forgo(&self, claim: Claim) {
        self.release(claim.0);
    }

    pub(super) fn release(&self, kept: impl IntoIterator<Item = Kept>) {
        for kept in kept {
            let mut shard = self.shards[shard_index(kept.home)].0.lock();
            self.put_back(&mut shard, kept);
        }
    }

    pub(super) fn put_back(&self, shard: &mut Shard<W>, mut kept: Kept) {
        let pool = shard.pools.get(&kept.key);
        if self.has(Bug::PutBackAnywhere)
            && let Some(lease) = pool.and_then(|pool| pool.leases.last())
        {
            kept.lease = lease.id;
        }
        shard.release(&kept);
        if matches!(kept.source, Source::Lent(_)) {
            let mut returning = self.returning.lock();
            if !returning.contains(&kept.home) {
                returning.push(kept.home);
            }
        }
    }
}
