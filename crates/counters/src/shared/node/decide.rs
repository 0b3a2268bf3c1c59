//! A decision from what is held, or a place in a line.

use std::collections::hash_map::Entry;

use smallvec::SmallVec;
use tollgate_core::{Cell, Decision, Level, Mode, Outcome, Retry, Timestamp};

use super::super::call::Terms;
use super::claim::{Claim, Kept};
use super::line::{Item, Line, Waiting};
use super::pool::{Pool, Standing};
use super::{Asked, Bug, Locked, Mono, Node, Step, Waiter};
use crate::memory::{Commit, StoreFull};
use crate::sync::Ordering;

impl Asked<'_> {
    /// Whether a level takes tokens. Where two watch one count only the first does.
    pub(super) fn takes(&self, place: usize) -> bool {
        let level = &self.levels[place];
        level.cost > 0 && !self.levels[..place].iter().any(|before| before.key == level.key)
    }

    /// The first level of another home that nothing is known of.
    fn lacks_elsewhere(&self, standings: &[Standing], own: u64) -> Option<usize> {
        let lacking = |place: &usize| standings[*place] == Standing::Unknown;
        let mut places = (0..self.levels.len()).filter(lacking);
        places.find(|place| self.levels[*place].home != own)
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
        if unknown && !refused {
            let times = (at, now);
            return Ok(Self::line_up(
                &mut locked,
                asked,
                claim,
                standings,
                times,
                clock,
                waiter,
            ));
        }
        let allowed = !refused;
        let mut then = now;
        if allowed && asked.commit == Commit::Charge {
            let mut deadline = Mono::MAX;
            for (place, level) in asked.levels.iter().enumerate() {
                if standings[place] == Standing::Held
                    && asked.takes(place)
                    && !claim.has(level.key)
                    && let Some(pool) = locked.pool(level)
                {
                    deadline = deadline.min(pool.spend(level.cost, now));
                }
            }
            then = clock();
            if then >= deadline && !self.has(Bug::CheckedBeforeOnly) {
                // What was spent ended meanwhile: it is lost, and the store has to be asked.
                for (level, standing) in asked.levels.iter().zip(&mut standings) {
                    if !claim.has(level.key) {
                        *standing = Standing::Unknown;
                    }
                }
                let times = (at, then);
                return Ok(Self::line_up(
                    &mut locked,
                    asked,
                    claim,
                    standings,
                    times,
                    clock,
                    waiter,
                ));
            }
        } else {
            for kept in &claim.0 {
                self.put_back(locked.shard(kept.home), *kept);
            }
        }
        let low = Self::look(&mut locked, asked, &standings, allowed, (at, now, then), decision);
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
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        standings: &[Standing],
        allowed: bool,
        (at, now, then): (Timestamp, Mono, Mono),
        decision: &mut Decision,
    ) -> (Option<u64>, Mono) {
        let mut low = None;
        let mut refused_until = now;
        for (level, standing) in asked.levels.iter().zip(standings) {
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
                    line.runs_low(key);
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
                    return Err(StoreFull);
                }
                let name = asked.details.name(place);
                entry.insert(Pool::new(name, level.rule, now))
            }
        };
        if pool.revision != Some(asked.revision) || pool.rule != *level.rule {
            pool.revision = Some(asked.revision);
            pool.rule = level.rule.clone();
            pool.soft = level.mode == Mode::Soft;
            pool.accuracy = asked.details.accuracy(place);
            pool.refusal = None;
        }
        pool.used = now;
        Ok(pool.standing(level.cost, now))
    }

    /// Puts a request that can't be decided yet on a line. What it needs of other slots than its org's comes first,
    /// lent to it if it is not held; that it keeps while its org is asked.
    fn line_up(
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        claim: Claim,
        mut standings: SmallVec<[Standing; 4]>,
        (at, now): (Timestamp, Mono),
        clock: &mut dyn FnMut() -> Mono,
        waiter: &mut dyn FnMut() -> W,
    ) -> Step {
        // Levels stand from broad to narrow: those of an org come last.
        let own = asked.levels.last().map_or(0, |level| level.home);
        let mut kept = claim.0;
        let mut foreign = asked.lacks_elsewhere(&standings, own);
        if foreign.is_none() && asked.commit == Commit::Charge {
            let lent = kept.len();
            let ended = Self::keep(locked, asked, &standings, own, now, &mut kept);
            let then = clock();
            for kept in &kept[lent..] {
                let shard = locked.shard(kept.home);
                if let Some(pool) = shard.pools.get_mut(&kept.key) {
                    pool.spent_by(now, then);
                }
            }
            if then >= ended {
                // What was kept ended meanwhile.
                for kept in kept.drain(lent..) {
                    let places = asked.levels.iter().zip(&mut standings);
                    for (_, standing) in places.filter(|(level, _)| level.key == kept.key) {
                        *standing = Standing::Unknown;
                    }
                }
                foreign = asked.lacks_elsewhere(&standings, own);
            }
        }
        let home = foreign.map_or(own, |place| asked.levels[place].home);
        let mut waiting = Waiting {
            waiter: waiter(),
            home,
            borrows: foreign.is_some(),
            commit: asked.commit,
            items: Vec::new(),
            kept,
            levels: vec![(true, false, Cell::default()); asked.levels.len()],
            formers: Vec::new(),
            left: Vec::new(),
        };
        for (place, level) in asked.levels.iter().enumerate() {
            let Some(pool) = locked.pool(level) else { continue };
            if level.home == home {
                waiting.items.push(Item {
                    place,
                    key: level.key,
                    name: pool.name,
                    cost: level.cost,
                    mode: level.mode,
                    terms: Terms::of(level, asked.revision, at),
                });
            } else {
                let fits = standings[place] == Standing::Held;
                waiting.levels[place] = (fits, fits && level.cost > 0, pool.view(level, at, now));
            }
        }
        for (number, former) in asked.formers.iter().enumerate() {
            let place = former.level;
            if asked.levels[place].home == home && former.home != home {
                // No earlier than it was.
                waiting.left.push((place, former.left.nanos().div_ceil(1_000)));
            } else if former.home == home && asked.levels[place].home == home {
                let level = Level {
                    rule: former.rule,
                    calendar: former.calendar,
                    ..asked.levels[place]
                };
                let terms = Terms::of(&level, asked.revision, at);
                waiting.formers.push((place, asked.details.former(number), terms));
            }
        }
        let place = foreign.unwrap_or(asked.levels.len() - 1);
        let line = locked.shard(home).lines.entry(home);
        let line = line.or_insert_with(|| Line::new(asked.details.tag(place)));
        line.lane = asked.details.lane(place);
        line.push(waiting);
        Step::Waits(home)
    }

    /// Keeps tokens of other homes that are held, and says when the first of them ends.
    fn keep(
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        standings: &[Standing],
        own: u64,
        now: Mono,
        kept: &mut SmallVec<[Kept; 1]>,
    ) -> Mono {
        let mut ended = Mono::MAX;
        for (place, level) in asked.levels.iter().enumerate() {
            let has = kept.iter().any(|kept| kept.key == level.key);
            if level.home != own
                && standings[place] == Standing::Held
                && asked.takes(place)
                && !has
                && let Some(pool) = locked.pool(level)
            {
                let (end, holds) = pool.keep(level.home, level.key, level.cost, now);
                ended = ended.min(end);
                kept.extend(holds);
            }
        }
        ended
    }
}
