//! A reply, taken in.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_core::{Calendar, CounterKey, Mode, Rule};

use super::super::call::{Done, Grant, Kind, LONGEST_HOLD, MOST, Micros, Reply, Seen, Terms, instant};
use super::claim::{Claim, Kept, Source};
use super::line::{Flight, Item, Lend, Line, Waiting};
use super::pool::{Lease, Pool, Refusal};
use super::size::nanos;
use super::{Answer, Bug, Charge, Charges, Mono, Node, Settled, Shard, Waiter};
use crate::memory::Commit;
use crate::sync::Ordering;

/// A denial is remembered at most so long.
const LONGEST_REFUSAL: Mono = nanos(1_000_000);
/// A limit that sits at its end is asked again after no less and no more than this.
const ASKED_AGAIN: [Mono; 2] = [nanos(2_000), nanos(50_000)];

impl<W: Waiter> Node<W> {
    /// Takes in what the store said.
    pub(super) fn take_reply(
        &self,
        shard: &mut Shard<W>,
        home: u64,
        number: u64,
        reply: Option<&Reply>,
        now: Mono,
        rest: &mut Vec<Kept>,
    ) -> Vec<(W, Answer)> {
        let mut told = Vec::new();
        let Shard { pools, lines } = shard;
        let Some(line) = lines.get_mut(&home) else {
            return told;
        };
        let Some(mut flight) = line.flight.take_if(|flight| flight.number == number) else {
            return told;
        };
        match reply {
            Some(Reply::Done(done)) => {
                line.offset = Some(nanos(done.now).wrapping_sub(now));
                let before = line.began.replace(done.began);
                if before.is_some_and(|began| began != done.began) {
                    self.losses.fetch_add(1, Ordering::Relaxed);
                }
                self.note_trip(now.saturating_sub(flight.sent));
                let times = Times {
                    at: done.now,
                    began: done.began,
                    sent: flight.sent,
                    now,
                };
                let needs = std::mem::take(&mut flight.needs);
                for (waiting, seen) in needs.into_iter().zip(&done.verdicts) {
                    let settled = take_verdict(pools, &waiting, seen, &times, rest);
                    told.push((waiting.waiter, Answer::Decided(settled)));
                }
                // What was lent came after what was decided, and so does what is known then.
                self.take_grants(line, pools, &mut flight, done, now);
                for waiting in flight.borrows {
                    let claim = Claim(waiting.kept);
                    told.push((waiting.waiter, Answer::Again(claim)));
                }
            }
            Some(Reply::Late { now: store }) => {
                // It did nothing, since the clock was taken to be another: now it is known.
                line.offset = Some(nanos(*store).wrapping_sub(now));
                line.owe_again(pools, std::mem::take(&mut flight.settles));
                for waiting in flight.needs.into_iter().chain(flight.borrows) {
                    let claim = Claim::of(waiting.kept, rest);
                    told.push((waiting.waiter, Answer::Again(claim)));
                }
            }
            Some(Reply::NotRun) | None => {
                if reply.is_some() {
                    line.owe_again(pools, std::mem::take(&mut flight.settles));
                }
                for waiting in flight.needs.into_iter().chain(flight.borrows) {
                    rest.extend(waiting.kept);
                    told.push((waiting.waiter, Answer::Away));
                }
            }
        }
        line.decide_waiting(pools, now, &mut told, rest);
        told
    }

    fn take_grants(
        &self,
        line: &mut Line<W>,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        flight: &mut Flight<W>,
        done: &Done,
        now: Mono,
    ) {
        let times = Times {
            at: done.now,
            began: done.began,
            sent: flight.sent,
            now,
        };
        for (lend, grant) in std::mem::take(&mut flight.lends).iter().zip(&done.grants) {
            let Grant { amount, hold, state } = *grant;
            self.lent.fetch_add(amount, Ordering::Relaxed);
            let Some(pool) = pools.get_mut(&lend.key) else {
                self.unspent.fetch_add(amount, Ordering::Relaxed);
                continue;
            };
            pool.cell = state.cell(&lend.terms);
            pool.heard = Some(now);
            if lend.needed {
                deal_out(line, pool, &mut flight.borrows, lend, amount, &times);
                continue;
            }
            if amount < lend.wanted / 2 {
                // It sits at its end: what comes back is worth a call only when there is enough of it.
                pool.sated_until = now.saturating_add(asked_again(pool));
            }
            if amount == 0 {
                continue;
            }
            line.give_up(pool, &lend.terms, now, false, &self.unspent);
            // The call may have been run as soon as it was sent, and a clock may be a little fast.
            let mut deadline = flight.sent.saturating_add(nanos(hold) - nanos(hold) / 1_000);
            if self.has(Bug::DeadlineFromReceipt) {
                deadline = now.saturating_add(nanos(hold));
            } else if self.has(Bug::NeverEnds) {
                deadline = Mono::MAX;
            }
            pool.leases.push(Lease {
                id: lend.lease,
                left: amount,
                spent: 0,
                deadline,
                sent: flight.sent,
                lent: done.now,
                of: (state.0[0], done.began),
                last: flight.sent,
                most: lend.most,
            });
        }
    }

    /// Follows how long calls take: an eighth of each new one.
    fn note_trip(&self, took: Mono) {
        let old = self.trip.load(Ordering::Relaxed);
        let took = (took / 1_000).min(LONGEST_HOLD);
        let new = if old == 0 { took } else { old - old / 8 + took / 8 };
        self.trip.store(new, Ordering::Relaxed);
    }
}

/// When a call was sent, run and answered.
struct Times {
    at: Micros,
    /// The generation that it was run in.
    began: Micros,
    sent: Mono,
    now: Mono,
}

/// Deals out what the store lent to requests that wait for it, in their order.
fn deal_out<W: Waiter>(
    line: &mut Line<W>,
    pool: &mut Pool,
    borrows: &mut [Waiting<W>],
    lend: &Lend,
    amount: u64,
    times: &Times,
) {
    pool.refusal = None;
    let mut left = amount;
    for waiting in borrows {
        let item = waiting.items.iter().find(|item| item.key == lend.key);
        let Some(item) = item.filter(|_| waiting.most(lend.key) == lend.most) else {
            continue;
        };
        let mut kept = Kept {
            home: waiting.home,
            key: lend.key,
            lease: lend.lease,
            amount: item.cost,
            source: Source::Lent(times.at),
        };
        if item.cost > left {
            if lend.most < MOST {
                let known = pool.refusal.map_or(u64::MAX, |refusal| refusal.cost);
                pool.refusal = Some(refusal(pool, &lend.terms, item.cost.min(known), lend.most, times));
            }
            (kept.amount, kept.source) = (0, Source::Refused);
            waiting.kept.push(kept);
        } else if item.cost > 0 && !waiting.waiter.is_gone() {
            left -= item.cost;
            waiting.kept.push(kept);
        }
    }
    pool.note_spent(amount - left);
    if left > 0 {
        line.give(pool, &lend.terms, lend.lease, left, times.at);
    }
}

/// What the store decided on a stack.
fn take_verdict<W>(
    pools: &mut HashMap<CounterKey, Pool, RandomState>,
    waiting: &Waiting<W>,
    seen: &[Seen],
    times: &Times,
    rest: &mut Vec<Kept>,
) -> Settled {
    let passes = |(item, seen): (&Item, &Seen)| seen.fits || item.mode != Mode::Enforce;
    let allowed = waiting.items.iter().zip(seen).all(passes);
    let mut levels = waiting.levels.clone();
    let mut charges = Charges::new();
    for (number, (item, seen)) in waiting.items.iter().zip(seen).enumerate() {
        let cell = seen.state.cell(&item.terms);
        let takes = item.cost > 0 && (seen.fits || item.mode == Mode::Soft);
        levels[item.place] = (seen.fits, takes, cell);
        let again = waiting.items[..number]
            .iter()
            .any(|before| before.key == item.key);
        if allowed
            && takes
            && !again
            && let Some(end) = item.lies(seen)
        {
            charges.push(Charge {
                place: item.place,
                end,
                began: times.began,
            });
        }
        if let Some(pool) = pools.get_mut(&item.key) {
            pool.cell = cell;
            pool.heard = Some(times.now);
            if !again {
                pool.refusal = None;
            }
            if allowed && takes && !again {
                pool.note_spent(item.cost);
            }
            // Where several limits had no room, the greatest of them speaks for all.
            let known = pool.refusal.map_or(0, |refusal| refusal.most);
            if !seen.fits && item.mode != Mode::Soft && item.most() >= known {
                pool.refusal = Some(refusal(pool, &item.terms, item.cost, item.most(), times));
            }
        }
    }
    if !allowed || waiting.commit == Commit::DryRun {
        rest.extend(&waiting.kept);
    }
    if !allowed {
        for (_, charged, _) in &mut levels {
            *charged = false;
        }
    }
    Settled {
        at: instant(times.at),
        levels,
        charges,
    }
}

impl Item {
    /// Where a charge lies that was seen so: in a window, or among the entries of a log. A bucket has no such place.
    fn lies(&self, seen: &Seen) -> Option<Micros> {
        let [first, second, _] = seen.state.0;
        match self.terms.kind {
            Kind::Token | Kind::Leaky => None,
            Kind::Log => Some(second),
            _ => Some(first),
        }
    }
}

/// A denial, and how long it is worth remembering.
fn refusal(pool: &Pool, terms: &Terms, cost: u64, most: u64, times: &Times) -> Refusal {
    let mut until = refused_until(pool, terms, cost, times);
    if pool.sizes.cap > 0 {
        // One that is shared by leases and sits at its end would be asked for each token.
        until = until.max(times.sent.saturating_add(asked_again(pool)));
    }
    Refusal { cost, most, until }
}

/// How long to wait until as much has come back as may be held.
fn asked_again(pool: &Pool) -> Mono {
    refill(&pool.rule, pool.sizes.cap).clamp(ASKED_AGAIN[0], ASKED_AGAIN[1])
}

/// When a cost that did not fit could fit, at the earliest. What others hold on lease can keep a bucket at more than
/// its burst; that may end at any time, and the bucket is then as if it had just been emptied.
fn refused_until(pool: &Pool, terms: &Terms, cost: u64, times: &Times) -> Mono {
    let (mut cell, at) = (pool.cell, instant(times.at));
    let window = pool.rule.window_ns;
    let rule = Rule::new(pool.rule.algorithm, terms.limit, Some(terms.capacity), window);
    if pool.is_bucket() {
        cell = rule.advance(cell, Calendar::utc(), at, false);
    }
    let wait = rule.wait(cell, cost, at);
    let wait = wait.and_then(|wait| u64::try_from(wait).ok());
    times
        .sent
        .saturating_add(wait.unwrap_or(LONGEST_REFUSAL).min(LONGEST_REFUSAL))
}

/// The time in which so many tokens come back.
fn refill(rule: &Rule, tokens: u64) -> Mono {
    let time = u128::from(tokens) * u128::from(rule.window_ns) / u128::from(rule.limit.max(1));
    u64::try_from(time).unwrap_or(Mono::MAX)
}
