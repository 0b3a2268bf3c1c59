//! The next call of a line, put together.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::{CounterKey, Mode, Timestamp};

use super::super::call::{
    Call, LONGEST_HOLD, LeaseId, Micros, Name, Need, Part, Return, Subject, Terms, Want, instant,
};
use super::line::{Flight, Kept, Line, Waiting};
use super::pool::Pool;
use super::size::Sizes;
use super::{Answer, Mono, Node, Outgoing, PATIENCE, Shard, Waiter, store_micros};
use crate::memory::Commit;
use crate::sync::Ordering;

/// Stacks decided by one call.
const MOST_NEEDS: usize = 32;

/// A call in the making.
struct Draft {
    call: Call,
    /// Counters to borrow of, and what at least.
    wanted: SmallVec<[(CounterKey, u64); 8]>,
    /// The counters of stacks that are to be decided, and whether they can refuse.
    stacks: Vec<SmallVec<[(CounterKey, bool); 4]>>,
}

impl<W: Waiter> Node<W> {
    /// Makes the next call of a line, after whoever can go on without one was told.
    pub(super) fn next_call(
        &self,
        shard: &mut Shard<W>,
        home: u64,
        now: Mono,
        told: &mut Vec<(W, Answer)>,
        kept: &mut Vec<Kept>,
    ) -> Option<Outgoing> {
        let Shard { pools, lines } = shard;
        let line = lines.get_mut(&home)?;
        if line.flight.is_some() {
            return None;
        }
        line.decide_waiting(pools, now, told, kept);
        let offset = line.offset.unwrap_or_else(|| self.offset.load(Ordering::Relaxed));
        let store = store_micros(offset, now);
        let mut flight = Flight {
            number: self.calls.fetch_add(1, Ordering::Relaxed),
            sent: now,
            needs: Vec::new(),
            borrows: Vec::new(),
            lends: Vec::new(),
        };
        let mut draft = Draft {
            call: Call {
                not_after: store.saturating_add(PATIENCE),
                ..Call::default()
            },
            wanted: SmallVec::new(),
            stacks: Vec::new(),
        };
        draft.take_waiting(line, &mut flight);
        for key in line.low.drain(..) {
            draft.want(key, 0);
        }
        let (nodes, trip) = (
            self.nodes.load(Ordering::Relaxed),
            self.trip.load(Ordering::Relaxed),
        );
        let mut target = |pool: &mut Pool| pool.target(nodes, trip, instant(store), now);
        draft.want_whole_stacks(pools, &mut target, now);
        for (key, lacking) in draft.wanted.clone() {
            let (Some(pool), Some(terms)) = (pools.get_mut(&key), line.terms.get(&key)) else {
                continue;
            };
            let held = target(pool);
            let amount = pool.want(held, now).max(lacking);
            if amount == 0 {
                continue;
            }
            let lease = LeaseId {
                node: self.incarnation,
                number: self.leases.fetch_add(1, Ordering::Relaxed) + 1,
            };
            let subject = draft.subject(pool.name, terms);
            draft.call.wants.push(Want {
                subject,
                amount,
                hold: if lacking > 0 {
                    borrowed_hold(pool.sizes, terms)
                } else {
                    pool.sizes.hold
                },
                lease,
                soft: pool.soft,
                opens: lacking > 0,
            });
            flight.lends.push((key, lease, *terms));
        }
        for key in std::mem::take(&mut line.owing) {
            if let (Some(pool), Some(terms)) = (pools.get_mut(&key), line.terms.get(&key)) {
                draft.settle(pool, terms, instant(store));
            }
        }
        for given in line.given.drain(..) {
            let subject = draft.subject(given.name, &given.terms);
            draft.call.returns.push(Return {
                subject,
                lease: given.lease,
                unspent: given.unspent,
                last_spent: store_micros(offset, given.last),
            });
        }
        if draft.call.subjects.is_empty() {
            return None;
        }
        let number = flight.number;
        line.flight = Some(flight);
        Some(Outgoing {
            home,
            number,
            tag: line.tag.clone(),
            call: draft.call,
        })
    }
}

impl Draft {
    /// Takes requests off the queue: those to be decided, and those that only borrow.
    fn take_waiting<W>(&mut self, line: &mut Line<W>, flight: &mut Flight<W>) {
        while self.call.needs.len() < MOST_NEEDS {
            let Some(waiting) = line.queue.pop_front() else {
                break;
            };
            let mut parts = Vec::new();
            let mut stack = SmallVec::new();
            for item in &waiting.items {
                line.terms.insert(item.key, item.terms);
                parts.push(Part {
                    subject: self.subject(item.name, &item.terms),
                    limit: item.terms.limit,
                    capacity: item.terms.capacity,
                    cost: item.cost,
                    mode: item.mode,
                });
                if waiting.borrows {
                    self.want(item.key, item.cost);
                } else if item.cost > 0 {
                    stack.push((item.key, item.mode == Mode::Enforce));
                }
            }
            self.add_formers(&waiting);
            if waiting.borrows {
                flight.borrows.push(waiting);
            } else {
                self.stacks.push(stack);
                self.call.needs.push(Need {
                    commit: waiting.commit,
                    parts,
                });
                flight.needs.push(waiting);
            }
        }
    }

    /// Charges what a counter's fallback let through, once, and only if it still matters.
    fn settle(&mut self, pool: &mut Pool, terms: &Terms, at: Timestamp) {
        let owed = std::mem::take(&mut pool.owed);
        if owed == 0 || at >= pool.owed_until {
            return;
        }
        let subject = self.subject(pool.name, terms);
        // It comes after all that wait, so that nobody is told its outcome.
        self.call.needs.push(Need {
            commit: Commit::Charge,
            parts: vec![Part {
                subject,
                limit: terms.limit,
                capacity: terms.capacity,
                cost: owed,
                mode: Mode::Soft,
            }],
        });
    }

    fn add_formers<W>(&mut self, waiting: &Waiting<W>) {
        for (place, name, terms) in &waiting.formers {
            let Some(item) = waiting.items.iter().find(|item| item.place == *place) else {
                continue;
            };
            let (former, own) = (self.subject(*name, terms), self.subject(item.name, &item.terms));
            let known = &mut self.call.subjects[own].formers;
            if own != former && !known.contains(&former) {
                known.push(former);
            }
        }
    }

    /// Borrows ahead for stacks that can then be decided here. Where one level has to be asked each time, or
    /// was just refused, tokens of the others would lie unused.
    fn want_whole_stacks(
        &mut self,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        target: &mut impl FnMut(&mut Pool) -> u64,
        now: Mono,
    ) {
        for stack in std::mem::take(&mut self.stacks) {
            let mut can_be_held = true;
            for (key, enforced) in &stack {
                let Some(pool) = pools.get_mut(key) else { continue };
                let lends = target(pool) > 0;
                can_be_held &= match pool.refusal {
                    Some(refusal) => !enforced && now < refusal.until,
                    None => lends,
                };
            }
            for (key, _) in stack.into_iter().filter(|_| can_be_held) {
                self.want(key, 0);
            }
        }
    }

    /// Adds to what is at least to be borrowed of a counter.
    fn want(&mut self, key: CounterKey, lacking: u64) {
        match self.wanted.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sum)) => *sum += lacking,
            None => self.wanted.push((key, lacking)),
        }
    }

    /// The place of a counter among the call's subjects.
    fn subject(&mut self, name: Name, terms: &Terms) -> usize {
        let subjects = &mut self.call.subjects;
        if let Some(place) = subjects.iter().position(|subject| subject.name == name) {
            if terms.limit > subjects[place].terms.limit {
                subjects[place].terms = *terms;
            }
            return place;
        }
        subjects.push(Subject {
            name,
            terms: *terms,
            formers: Vec::new(),
        });
        subjects.len() - 1
    }
}

/// For how long tokens are lent that a request needs of another slot than its org's, even if every decision is the
/// store's: until the org has answered.
fn borrowed_hold(sizes: Sizes, terms: &Terms) -> Micros {
    let refill = u128::from(terms.capacity) * u128::from(terms.window) / u128::from(terms.limit.max(1));
    let quarter = u64::try_from(refill / 4).unwrap_or(LONGEST_HOLD);
    sizes.hold.max(quarter.min(20_000))
}
