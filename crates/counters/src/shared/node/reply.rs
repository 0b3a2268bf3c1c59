//! A reply, taken in.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_core::{CounterKey, Mode, Rule};

use super::super::call::{Done, Grant, LONGEST_HOLD, Micros, Reply, Seen, instant};
use super::line::{Flight, Item, Kept, Line, Waiting};
use super::pool::{Lease, Pool, Refusal, Standing};
use super::size::nanos;
use super::{Answer, Mono, Node, Settled, Shard, Waiter};
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
        kept: &mut Vec<Kept>,
    ) -> Vec<(W, Answer)> {
        let mut told = Vec::new();
        let Shard { pools, lines } = shard;
        let Some(line) = lines.get_mut(&home) else {
            return told;
        };
        let Some(flight) = line.flight.take_if(|flight| flight.number == number) else {
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
                self.take_grants(line, pools, &flight, done, now);
                for (waiting, seen) in flight.needs.into_iter().zip(&done.verdicts) {
                    let times = Times {
                        at: done.now,
                        sent: flight.sent,
                        now,
                    };
                    let answer = take_verdict(pools, &waiting, seen, &times, kept);
                    told.push((waiting.waiter, answer));
                }
                let borrowed = flight.borrows.into_iter();
                told.extend(borrowed.map(|waiting| (waiting.waiter, Answer::Again)));
            }
            other => {
                let mut answer = Answer::Away;
                if let Some(Reply::Late { now: store }) = other {
                    // It did nothing, since the clock was taken to be another: now it is known.
                    line.offset = Some(nanos(*store).wrapping_sub(now));
                    answer = Answer::Again;
                }
                for waiting in flight.needs.into_iter().chain(flight.borrows) {
                    kept.extend(waiting.kept);
                    told.push((waiting.waiter, answer.clone()));
                }
            }
        }
        line.decide_waiting(pools, now, &mut told, kept);
        told
    }

    fn take_grants(
        &self,
        line: &mut Line<W>,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        flight: &Flight<W>,
        done: &Done,
        now: Mono,
    ) {
        for ((key, lease, terms), grant) in flight.lends.iter().zip(&done.grants) {
            let Grant { amount, hold, state } = *grant;
            self.lent.fetch_add(amount, Ordering::Relaxed);
            let Some(pool) = pools.get_mut(key) else {
                self.unspent.fetch_add(amount, Ordering::Relaxed);
                continue;
            };
            pool.cell = state.cell(terms);
            pool.heard = Some(now);
            if amount == 0 {
                pool.sated_until = now.saturating_add(ASKED_AGAIN[0]);
                continue;
            }
            line.give_up(pool, terms, now, false, &self.unspent);
            // The call may have been run as soon as it was sent, and a clock may be a little fast.
            let deadline = flight.sent.saturating_add(nanos(hold) - nanos(hold) / 1_000);
            pool.leases.push(Lease {
                id: *lease,
                left: amount,
                deadline,
                last: flight.sent,
            });
        }
        for item in flight.borrows.iter().flat_map(|waiting| &waiting.items) {
            let Some(pool) = pools.get_mut(&item.key) else {
                continue;
            };
            if pool.standing(item.cost, now) == Standing::Unknown {
                let until = refused_until(pool, item.cost, done.now, flight.sent);
                pool.refusal = Some(Refusal {
                    cost: item.cost,
                    until: until.max(now.saturating_add(ASKED_AGAIN[0])),
                });
            }
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
    sent: Mono,
    now: Mono,
}

/// What the store decided on a stack.
fn take_verdict<W>(
    pools: &mut HashMap<CounterKey, Pool, RandomState>,
    waiting: &Waiting<W>,
    seen: &[Seen],
    times: &Times,
    kept: &mut Vec<Kept>,
) -> Answer {
    let passes = |(item, seen): (&Item, &Seen)| seen.fits || item.mode != Mode::Enforce;
    let allowed = waiting.items.iter().zip(seen).all(passes);
    let mut levels = waiting.levels.clone();
    for (item, seen) in waiting.items.iter().zip(seen) {
        let cell = seen.state.cell(&item.terms);
        let takes = item.cost > 0 && (seen.fits || item.mode == Mode::Soft);
        levels[item.place] = (seen.fits, takes, cell);
        if let Some(pool) = pools.get_mut(&item.key) {
            pool.cell = cell;
            pool.heard = Some(times.now);
            pool.refusal = None;
            if allowed && takes {
                pool.note_spent(item.cost);
            }
            if !seen.fits && item.mode != Mode::Soft {
                pool.refusal = Some(refusal(pool, item.cost, times));
            }
        }
    }
    if !allowed {
        kept.extend(&waiting.kept);
        for (_, charged, _) in &mut levels {
            *charged = false;
        }
    } else if waiting.kept.iter().any(|kept| times.now >= kept.hold.deadline) {
        // What was kept for it ended while the org was asked: it can't be let through on that.
        return Answer::Away;
    }
    Answer::Decided(Settled {
        at: instant(times.at),
        levels,
    })
}

/// A denial, and how long it is worth remembering.
fn refusal(pool: &Pool, cost: u64, times: &Times) -> Refusal {
    let mut until = refused_until(pool, cost, times.at, times.sent);
    if pool.sizes.cap > 0 {
        // One that is shared by leases and sits at its end would be asked for each token.
        let refill = refill(&pool.rule, pool.sizes.cap).clamp(ASKED_AGAIN[0], ASKED_AGAIN[1]);
        until = until.max(times.sent.saturating_add(refill));
    }
    Refusal { cost, until }
}

/// When a cost that did not fit could fit, at the earliest.
fn refused_until(pool: &Pool, cost: u64, at: Micros, sent: Mono) -> Mono {
    let wait = pool.rule.wait(pool.cell, cost, instant(at));
    let wait = wait.and_then(|wait| u64::try_from(wait).ok());
    sent.saturating_add(wait.unwrap_or(LONGEST_REFUSAL).min(LONGEST_REFUSAL))
}

/// The time in which so many tokens come back.
fn refill(rule: &Rule, tokens: u64) -> Mono {
    let time = u128::from(tokens) * u128::from(rule.window_ns) / u128::from(rule.limit.max(1));
    u64::try_from(time).unwrap_or(Mono::MAX)
}
