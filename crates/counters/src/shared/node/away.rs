//! Decisions while the store is away: from what is left on lease, and else as each limit says.

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Decision, Level, Mode, Outcome, Retry, Rule, Timestamp};

use super::super::call::Terms;
use super::line::Line;
use super::owing::{Owing, When};
use super::pool::Standing;
use super::{Asked, Bug, Locked, Mono, Node, Shard, Waiter, store_micros};
use crate::memory::{Commit, MemoryStore, Places, StoreFull};
use crate::sync::Ordering;

/// What a limit does while the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fail {
    /// Lets everything through.
    Open,
    /// Lets nothing be decided.
    Closed,
    /// Counts on this node, by its share of the limit.
    Local,
}

/// A decision without the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// It is made.
    Decided {
        /// When, in what is taken for the store's time.
        at: Timestamp,
        /// The levels for which a fallback spoke, by their places; none if what was held sufficed.
        without: Places,
    },
    /// Some limit wants none made.
    Closed,
}

/// What of its share a node uses while it can't ask: seven parts of ten.
const SHARE: (u128, u128) = (7, 10);

impl<W: Waiter> Node<W> {
    /// Decides a request without the store. `local` counts for the limits that are kept on this node meanwhile.
    pub fn decide_away(
        &self,
        asked: &Asked<'_>,
        fail: &dyn Fn(usize) -> Fail,
        local: &MemoryStore,
        clock: &mut dyn FnMut() -> Mono,
        decision: &mut Decision,
    ) -> Result<Fallback, StoreFull> {
        loop {
            let mut locked = self.lock(asked.levels.iter().map(|level| level.home));
            let now = clock();
            let home = asked.levels.last().map_or(0, |level| level.home);
            let at = self.store_time(&mut locked, home, now);
            let mut standings: SmallVec<[Standing; 4]> = SmallVec::new();
            for (place, level) in asked.levels.iter().enumerate() {
                standings.push(self.stand(&mut locked, asked, place, level, now)?);
            }
            let unknown = |place: &usize| standings[*place] == Standing::Unknown;
            let says = |place: usize| match (fail(place), asked.levels[place].mode) {
                // What refuses nothing can't keep anybody waiting.
                (Fail::Closed, Mode::Shadow | Mode::Soft) => Fail::Open,
                (says, _) => says,
            };
            let unknown: Places = (0..standings.len()).filter(unknown).collect();
            if unknown.iter().any(|place| says(*place) == Fail::Closed) {
                return Ok(Fallback::Closed);
            }
            let nodes = self.nodes.load(Ordering::Relaxed);
            let nodes = nodes.max(self.sharing.load(Ordering::Relaxed));
            let kept: SmallVec<[usize; 4]> = (unknown.iter().copied())
                .filter(|place| says(*place) == Fail::Local)
                .collect();
            let rules: SmallVec<[Rule; 4]> = kept
                .iter()
                .map(|place| share_of(asked.levels[*place].rule, nodes))
                .collect();
            let mut own: SmallVec<[Level<'_>; 4]> = SmallVec::new();
            for (place, rule) in kept.iter().zip(&rules) {
                own.push(Level {
                    rule,
                    ..asked.levels[*place]
                });
            }
            let is_refused = |place: usize| {
                standings[place] == Standing::Refused && asked.levels[place].mode == Mode::Enforce
            };
            let refused = (0..standings.len()).any(is_refused);
            let commit = if refused { Commit::DryRun } else { asked.commit };
            let mut here = Decision::pending();
            local.decide(&own, &[], at, commit, &mut here)?;
            let allowed = here.allowed && !refused;
            if allowed && asked.commit == Commit::Charge && !spend(&mut locked, asked, &standings, now, clock)
            {
                continue;
            }
            decision.allowed = allowed;
            for (place, level) in asked.levels.iter().enumerate() {
                let Some(pool) = locked.pool(level) else { continue };
                let kept = kept.iter().position(|known| *known == place);
                let kept = kept.map(|kept| here.outcomes[kept]);
                let fits = kept.map_or(standings[place] != Standing::Refused, |outcome| outcome.fits);
                decision.outcomes.push(Outcome {
                    fits,
                    charged: allowed && fits && level.cost > 0,
                    cell: pool.view(level, at, now),
                    remaining: 0,
                });
            }
            if allowed && asked.commit == Commit::Charge {
                for place in unknown.iter().copied() {
                    let charged = |place: usize| decision.outcomes[place].charged;
                    let key = asked.levels[place].key;
                    // A count that several limits watch is charged once.
                    let before = (0..place).any(|before| asked.levels[before].key == key && charged(before));
                    if charged(place) && !before {
                        self.owe(&mut locked, asked, place, nodes, (at, now));
                    }
                }
            }
            drop(locked);
            decision.sum_up(asked.levels, at);
            tell_share(decision, &kept, &here, asked.levels);
            return Ok(Fallback::Decided { at, without: unknown });
        }
    }

    /// Notes that a level's counter has to be charged for what was let through without it, by one of so many nodes.
    fn owe(
        &self,
        locked: &mut Locked<'_, W>,
        asked: &Asked<'_>,
        place: usize,
        nodes: u64,
        (at, now): (Timestamp, Mono),
    ) {
        let level = &asked.levels[place];
        let terms = Terms::of(level, asked.revision, at);
        let Shard { pools, lines } = locked.shard(level.home);
        let Some(pool) = pools.get_mut(&level.key) else {
            return;
        };
        let line = lines.entry(level.home);
        let line = line.or_insert_with(|| Line::new(asked.details.tag(place)));
        // What was heard last of any home is the younger clock, what was heard of this one may be the earlier.
        let fleet = store_micros(self.offset.load(Ordering::Relaxed), now);
        let own = line.offset.map_or(fleet, |offset| store_micros(offset, now));
        let when = When {
            at,
            since: own.min(fleet),
            now,
        };
        let nodes = if self.has(Bug::DrainsWhole) { 1 } else { nodes };
        let replaced = || asked.predecessors(place, at, self.has(Bug::PartsAreWhole));
        let owing = pool
            .owing
            .get_or_insert_with(|| Box::new(Owing::new(terms, replaced())));
        owing.add(level, terms, nodes, when);
        line.terms.insert(level.key, terms);
        line.owes(level.key);
    }
}

/// Spends what is held. False if it ended meanwhile: then it is lost.
fn spend<W>(
    locked: &mut Locked<'_, W>,
    asked: &Asked<'_>,
    standings: &[Standing],
    now: Mono,
    clock: &mut dyn FnMut() -> Mono,
) -> bool {
    let spends = |place: &usize| standings[*place] == Standing::Held && asked.takes(*place);
    let places: SmallVec<[usize; 4]> = (0..standings.len()).filter(spends).collect();
    let mut deadline = Mono::MAX;
    for place in &places {
        let level = &asked.levels[*place];
        if let Some(pool) = locked.pool(level) {
            deadline = deadline.min(pool.spend(level.cost, asked.most(*place), now, asked.charges.is_some()));
        }
    }
    let then = clock();
    for place in &places {
        if let Some(pool) = locked.pool(&asked.levels[*place]) {
            pool.spent_by(now, then);
        }
    }
    then < deadline
}

/// A node's share of a limit while the store is away.
fn share_of(rule: &Rule, nodes: u64) -> Rule {
    let share = |whole: u64| {
        let share = u128::from(whole) * SHARE.0 / (SHARE.1 * u128::from(nodes.max(1)));
        u64::try_from(share).unwrap_or(whole).max(u64::from(whole > 0))
    };
    let (limit, burst) = (share(rule.limit), share(rule.capacity));
    Rule::new(Algorithm::TokenBucket, limit, Some(burst), rule.window_ns)
}

/// Tells of limits that were decided by a share what is left of that, and how long to wait for it.
fn tell_share(decision: &mut Decision, kept: &[usize], here: &Decision, levels: &[Level<'_>]) {
    for (place, outcome) in kept.iter().zip(&here.outcomes) {
        decision.outcomes[*place].remaining = outcome.remaining;
    }
    let enforced = levels.iter().zip(&decision.outcomes);
    let enforced = enforced.filter(|(level, _)| level.mode == Mode::Enforce);
    decision.remaining = enforced.map(|(_, outcome)| outcome.remaining).min();
    if let Some(place) = here.binding {
        let longer = matches!((decision.retry, here.retry), (Retry::After(_), Retry::Never))
            || here.retry > decision.retry;
        if longer || decision.binding.is_none() {
            decision.binding = Some(kept[place]);
        }
        decision.retry = decision.retry.max(here.retry);
    }
}
