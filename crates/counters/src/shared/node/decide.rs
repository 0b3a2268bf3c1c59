//! A decision from what is held, or a place in a line.

use std::collections::hash_map::Entry;

use smallvec::SmallVec;
use tollgate_core::{Decision, Level, Mode, Outcome, Retry, Timestamp};

use super::super::call::most_of;
use super::claim::Claim;
use super::pool::{Pool, Standing};
use super::undecided::Undecided;
use super::{Asked, Bug, Charge, Locked, Mono, Node, Step, Waiter};
use crate::memory::{Commit, StoreFull};
use crate::sync::Ordering;

impl Asked<'_> {
    /// Whether a level takes tokens. Where two watch one count only the first does.
    pub(super) fn takes(&self, place: usize) -> bool {
        let level = &self.levels[place];
        level.cost > 0 && !self.levels[..place].iter().any(|before| before.key == level.key)
    }

    /// The least that may be counted by any of the limits that watch a level's count: what is spent is spent under all.
    pub(super) fn most(&self, place: usize) -> u64 {
        let key = self.levels[place].key;
        let sharing = self.levels.iter().filter(|level| level.key == key);
        let most = sharing.map(|level| most_of(level.rule.capacity, level.mode));
        most.min().unwrap_or(0)
    }
}

impl<W: Waiter> Node<W> {
    /// Decides a request from what is held, if that is possible, and from what it has if it waited before. The clock
    /// is read when tokens are about to be spent, and once more when they are: a thread that slept in between has
    /// spent nothing.
    pub fn decide(
        &self,
        asked: &Asked<'_>,
        claim: Claim,
        clock: &mut dyn FnMut() -> Mono,
        waiter: &mut dyn FnMut() -> W,
        decision: &mut Decision,
    ) -> Result<Step, StoreFull> {
        let mut locked = self.lock(asked.levels.iter().map(|level| level.home));
        let now = clock();
        let Some(first) = asked.levels.last() else {
            let at = Timestamp::from_nanos(now.wrapping_add(self.offset.load(Ordering::Relaxed)));
            return Ok(Step::Decided { at, low: None });
        };
        let at = self.store_time(&mut locked, first.home, now);
        let mut standings: SmallVec<[Standing; 4]> = SmallVec::new();
        let (mut unknown, mut refused) = (false, asked.refused);
        for (place, level) in asked.levels.iter().enumerate() {
            let standing = self.stand(&mut locked, asked, place, level, now)?;
            let standing = claim.standing(level.key).unwrap_or(standing);
            unknown |= standing == Standing::Unknown;
            refused |= standing == Standing::Refused && level.mode == Mode::Enforce;
            standings.push(standing);
        }
        let allowed = !refused;
        let (mut lacks, mut then) = (unknown && allowed, now);
        if !lacks && allowed && asked.commit == Commit::Charge {
            let mut deadline = Mono::MAX;
            for (place, level) in asked.levels.iter().enumerate() {
                if standings[place] == Standing::Held
                    && asked.takes(place)
                    && !claim.has(level.key)
                    && let Some(pool) = locked.pool(level)
                {
                    if let Some(charges) = asked.charges
                        && let Some((end, began)) = pool.lies(level.cost, asked.most(place), now)
                    {
                        charges.borrow_mut().push(Charge { place, end, began });
                    }
                    deadline =
                        deadline.min(pool.spend(level.cost, asked.most(place), now, asked.charges.is_some()));
                }
            }
            then = clock();
            lacks = then >= deadline && !self.has(Bug::CheckedBeforeOnly);
            if lacks {
                // What was spent ended meanwhile: it is lost, and the store has to be asked.
                if let Some(charges) = asked.charges {
                    charges.borrow_mut().clear();
                }
                for (level, standing) in asked.levels.iter().zip(&mut standings) {
                    if !claim.has(level.key) {
                        *standing = Standing::Unknown;
                    }
                }
            }
        }
        if lacks {
            let undecided = Undecided {
                asked,
                kept: claim.0,
                standings,
                at,
                now: then,
                parts_are_whole: self.has(Bug::PartsAreWhole),
            };
            return Ok(undecided.line_up(&mut locked, clock, waiter));
        }
        if !allowed || asked.commit == Commit::DryRun {
            for kept in &claim.0 {
                self.put_back(locked.shard(kept.home), *kept);
            }
        }
        let low = self.look(&mut locked, asked, &standings, allowed, (at, now, then), decision);
        drop(locked);
        decision.allowed = allowed;
        decision.sum_up(asked.levels, at);
        let (low, refused_until) = low;
        if !allowed && let Retry::After(wait) = decision.retry {
            decision.retry = Retry::After(wait.max(u128::from(refused_until - now)));
        }
        Ok(Step::Decided { at, low })
    }

    /// Fills in how each level of a decided stack looks. Says which home's counters run low, and until when it is
    /// refused.
    fn look(
        &self,
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        standings: &[Standing],
        allowed: bool,
        (at, now, then): (Timestamp, Mono, Mono),
        decision: &mut Decision,
    ) -> (Option<u64>, Mono) {
        let mut low = None;
        let mut refused_until = now;
        for (place, (level, standing)) in asked.levels.iter().zip(standings).enumerate() {
            let Some(pool) = locked.pool(level) else { continue };
            let cell = pool.view(level, at, now);
            let charged = allowed && *standing == Standing::Held && level.cost > 0;
            let fits = match standing {
                Standing::Refused => false,
                Standing::Held if level.mode != Mode::Soft => true,
                // A soft limit lends past its end, and of one that nobody asked about there is only this to go by.
                _ => {
                    let taken = if charged { level.cost } else { 0 };
                    level.rule.fits(level.rule.uncharge(cell, taken), level.cost, at)
                }
            };
            if let (false, Some(refusal)) = (fits, pool.refusal) {
                refused_until = refused_until.max(refusal.until);
            }
            if charged {
                pool.spent_by(now, then);
            }
            if charged && pool.runs_low(now) {
                low = Some(level.home);
                let (home, key) = (level.home, level.key);
                if let Some(line) = locked.shard(home).lines.get_mut(&home) {
                    line.runs_low(key, || {
                        asked.predecessors(place, at, self.has(Bug::PartsAreWhole))
                    });
                }
            }
            decision.outcomes.push(Outcome {
                fits,
                charged,
                cell,
                remaining: 0,
            });
        }
        (low, refused_until)
    }

    /// How a level stands. Its pool is made if there is none.
    pub(super) fn stand(
        &self,
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        place: usize,
        level: &Level<'_>,
        now: Mono,
    ) -> Result<Standing, StoreFull> {
        let pool = match locked.shard(level.home).pools.entry(level.key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                if self.pools.fetch_add(1, Ordering::Relaxed) >= self.capacity {
                    self.pools.fetch_sub(1, Ordering::Relaxed);
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return Err(StoreFull);
                }
                let name = asked.details.name(place);
                entry.insert(Pool::new(name, level.rule, now))
            }
        };
        pool.heed(level, asked.revision, asked.details.accuracy(place), now);
        Ok(pool.standing(level.cost, most_of(level.rule.capacity, level.mode), now))
    }
}
