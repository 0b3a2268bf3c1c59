//! The next call of a line, put together.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::{CounterKey, Mode};

use super::super::call::{Call, LeaseId, Micros, Name, Need, Part, Return, Subject, Terms, Want, instant};
use super::claim::Kept;
use super::line::{Flight, Given, Lend, Line, Low, Waiting};
use super::owing::Predecessors;
use super::pool::Pool;
use super::{Answer, Bug, Mono, Node, Outgoing, Shard, Waiter, store_micros};
use crate::sync::Ordering;

/// Stacks decided by one call.
const MOST_NEEDS: usize = 32;
/// For how long what was lent to a request can be given back, at least.
const BORROWED: Micros = 20_000;

/// A call in the making.
struct Draft {
    call: Call,
    /// Counters to borrow of ahead.
    wanted: SmallVec<[CounterKey; 8]>,
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
        rest: &mut Vec<Kept>,
    ) -> Option<Outgoing> {
        let Shard { pools, lines } = shard;
        let line = lines.get_mut(&home)?;
        if line.flight.is_some() {
            return None;
        }
        line.decide_waiting(pools, now, told, rest);
        let offset = line.offset.unwrap_or_else(|| self.offset.load(Ordering::Relaxed));
        let store = store_micros(offset, now);
        let mut flight = Flight {
            number: self.calls.fetch_add(1, Ordering::Relaxed),
            sent: now,
            needs: Vec::new(),
            borrows: Vec::new(),
            lends: Vec::new(),
            settles: Vec::new(),
        };
        let mut draft = Draft {
            call: Call {
                not_after: store.saturating_add(self.patience.load(Ordering::Relaxed)),
                ..Call::default()
            },
            wanted: SmallVec::new(),
            stacks: Vec::new(),
        };
        draft.take_waiting(line, &mut flight);
        let low: SmallVec<[Low; 4]> = line.low.drain(..).collect();
        for Low { key, .. } in &low {
            draft.want(*key);
        }
        let (nodes, trip) = (
            self.nodes.load(Ordering::Relaxed),
            self.trip.load(Ordering::Relaxed),
        );
        let mut target = |pool: &mut Pool| pool.target(nodes, trip, instant(store), now);
        draft.want_whole_stacks(pools, &mut target, now);
        let lease = || LeaseId {
            node: self.incarnation,
            number: self.leases.fetch_add(1, Ordering::Relaxed) + 1,
        };
        draft.borrow(&mut flight, &lease, trip);
        for key in std::mem::take(&mut draft.wanted) {
            let (Some(pool), Some(terms)) = (pools.get_mut(&key), line.terms.get(&key)) else {
                continue;
            };
            let ahead = target(pool);
            let amount = pool.want(ahead, now);
            if amount == 0 {
                continue;
            }
            for lease in pool.take_spent() {
                line.given.push(Given {
                    name: pool.name,
                    terms: *terms,
                    lease: lease.id,
                    unspent: 0,
                    last_spent: lease.last_spent(),
                });
            }
            let (subject, lease) = (draft.subject(pool.name, terms), lease());
            draft.call.wants.push(Want {
                subject,
                amount,
                hold: pool.sizes.hold,
                lease,
                most: pool.most,
                needed: false,
            });
            flight.lends.push(Lend {
                key,
                lease,
                terms: *terms,
                wanted: amount,
                most: pool.most,
                needed: false,
            });
            draft.replaces_of(&low, key, pool.name, terms);
        }
        self.settle_owing(line, pools, &mut flight, &mut draft, (store, now));
        for given in line.given.drain(..) {
            let subject = draft.subject(given.name, &given.terms);
            draft.call.returns.push(Return {
                subject,
                lease: given.lease,
                unspent: given.unspent,
                last_spent: given.last_spent,
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
            lane: line.lane,
            call: draft.call,
        })
    }

    /// Charges what was let through without the store, once, and only where it still matters.
    fn settle_owing(
        &self,
        line: &mut Line<W>,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        flight: &mut Flight<W>,
        draft: &mut Draft,
        (store, now): (Micros, Mono),
    ) {
        for key in std::mem::take(&mut line.owing) {
            let Some(pool) = pools.get_mut(&key) else { continue };
            let Some(owing) = pool.owing.take().filter(|owing| owing.matters(instant(store))) else {
                continue;
            };
            if draft.contradicts(&owing.predecessors) {
                pool.owing = Some(owing);
                line.owing.push(key);
                continue;
            }
            // The node may know newer numbers than those that let it through.
            let terms = *line.terms.get(&key).unwrap_or(&owing.terms);
            let subject = draft.subject(pool.name, &terms);
            draft
                .call
                .settlements
                .push(owing.settlement(subject, &terms, now));
            if !self.has(Bug::SettlesAlone) {
                draft.replaces(pool.name, &terms, &owing.predecessors);
            }
            if self.has(Bug::OwedAgain) {
                pool.owing = Some(owing.clone());
                line.owing.push(key);
            }
            flight.settles.push((key, owing));
        }
    }
}

impl Draft {
    /// Takes requests off the queue: those to be decided, and those that only borrow. A call speaks by one revision,
    /// since the store takes what it says of a counter for all of it.
    fn take_waiting<W>(&mut self, line: &mut Line<W>, flight: &mut Flight<W>) {
        let revision = line.queue.front().and_then(Waiting::revision);
        while flight.needs.len() + flight.borrows.len() < MOST_NEEDS {
            let next = line.queue.pop_front_if(|next| next.revision() == revision);
            let Some(waiting) = next else {
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
                if item.cost > 0 {
                    stack.push((item.key, item.mode == Mode::Enforce));
                }
            }
            for (place, replaced) in &waiting.predecessors {
                if let Some(item) = waiting.items.iter().find(|item| item.place == *place) {
                    self.replaces(item.name, &item.terms, replaced);
                }
            }
            self.stacks.push(stack);
            if waiting.borrows {
                flight.borrows.push(waiting);
            } else {
                self.call.needs.push(Need {
                    commit: waiting.commit,
                    parts,
                });
                flight.needs.push(waiting);
            }
        }
    }

    /// Asks for what requests of other homes wait for, as one lease of each counter and limit. Who costs nothing only
    /// looks.
    fn borrow<W>(&mut self, flight: &mut Flight<W>, lease: &impl Fn() -> LeaseId, trip: Micros) {
        let Flight { borrows, lends, .. } = flight;
        for waiting in borrows {
            for item in waiting.items_taken() {
                let subject = self.subject(item.name, &item.terms);
                let most = waiting.most(item.key);
                let same = |want: &&mut Want| want.subject == subject && want.most == most;
                if let Some(want) = self.call.wants.iter_mut().find(same) {
                    want.amount += item.cost;
                    continue;
                }
                let lease = lease();
                self.call.wants.push(Want {
                    subject,
                    amount: item.cost,
                    hold: (4 * trip).max(BORROWED).min(item.terms.window / 4),
                    lease,
                    most,
                    needed: true,
                });
                lends.push(Lend {
                    key: item.key,
                    lease,
                    terms: item.terms,
                    wanted: item.cost,
                    most,
                    needed: true,
                });
            }
        }
    }

    /// Whether the call speaks of a counter by other numbers than it had when it was replaced: those of requests that know
    /// of no change. What it had left is not known by them.
    fn contradicts(&self, replaced: &Predecessors) -> bool {
        let numbers = |terms: &Terms| (terms.limit, terms.capacity);
        replaced.known.iter().any(|(name, terms)| {
            let mut subjects = self.call.subjects.iter();
            subjects.any(|subject| subject.name == *name && numbers(&subject.terms) != numbers(terms))
        })
    }

    /// Says what a counter replaces that runs low: what others report to that is charged to it.
    fn replaces_of(&mut self, low: &[Low], key: CounterKey, name: Name, terms: &Terms) {
        let low = low.iter().find(|low| low.key == key);
        if let Some(low) = low.filter(|low| !self.contradicts(&low.predecessors)) {
            self.replaces(name, terms, &low.predecessors);
        }
    }

    /// Says what a counter replaces.
    fn replaces(&mut self, name: Name, terms: &Terms, replaced: &Predecessors) {
        if replaced.is_empty() {
            return;
        }
        let own = self.subject(name, terms);
        let left = &mut self.call.subjects[own].left;
        *left = replaced.left.max(*left);
        for (name, terms) in &replaced.known {
            let former = self.subject(*name, terms);
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
                self.want(key);
            }
        }
    }

    /// Borrows of a counter ahead.
    fn want(&mut self, key: CounterKey) {
        if !self.wanted.contains(&key) {
            self.wanted.push(key);
        }
    }

    /// The place of a counter among the call's subjects. Of several limits on it the largest counts. Those of another
    /// revision than the requests' don't: the store knows itself which holds.
    fn subject(&mut self, name: Name, terms: &Terms) -> usize {
        let subjects = &mut self.call.subjects;
        if let Some(place) = subjects.iter().position(|subject| subject.name == name) {
            let known = &subjects[place].terms;
            if terms.revision == known.revision && terms.limit > known.limit {
                subjects[place].terms = *terms;
            }
            return place;
        }
        subjects.push(Subject {
            name,
            terms: *terms,
            formers: Vec::new(),
            left: 0,
        });
        subjects.len() - 1
    }
}
