//! A request that can't be decided from what is held: what it keeps meanwhile, and the line that it joins.

use smallvec::SmallVec;
use tollgate_core::{Cell, Timestamp};

use super::super::call::Terms;
use super::claim::Kept;
use super::line::{Item, Line, Waiting};
use super::pool::Standing;
use super::{Asked, Locked, Mono, Step, Waiter};
use crate::memory::Commit;

/// A request, and how its levels stand.
pub(super) struct Undecided<'a> {
    pub(super) asked: &'a Asked<'a>,
    /// What it has by now.
    pub(super) kept: SmallVec<[Kept; 1]>,
    pub(super) standings: SmallVec<[Standing; 4]>,
    /// In the store's time, and in this node's.
    pub(super) at: Timestamp,
    pub(super) now: Mono,
    /// A mistake is made: counters of a part of what is counted are taken for all of it.
    pub(super) parts_are_whole: bool,
}

impl Undecided<'_> {
    /// Puts it on a line. What it needs of other slots than its org's comes first, lent to it if it is not held; that it
    /// keeps while its org is asked.
    pub(super) fn line_up<W: Waiter>(
        mut self,
        locked: &mut Locked<'_, W>,
        clock: &mut dyn FnMut() -> Mono,
        waiter: &mut dyn FnMut() -> W,
    ) -> Step {
        let asked = self.asked;
        // Levels stand from broad to narrow: those of an org come last.
        let own = asked.levels.last().map_or(0, |level| level.home);
        let mut foreign = self.lacks_elsewhere(own);
        if foreign.is_none() && asked.commit == Commit::Charge {
            self.keep(locked, own, clock);
            foreign = self.lacks_elsewhere(own);
        }
        let home = foreign.map_or(own, |place| asked.levels[place].home);
        let mut waiting = Waiting {
            waiter: waiter(),
            home,
            borrows: foreign.is_some(),
            commit: asked.commit,
            items: Vec::new(),
            kept: std::mem::take(&mut self.kept),
            levels: vec![(true, false, Cell::default()); asked.levels.len()],
            predecessors: Vec::new(),
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
                    terms: Terms::of(level, asked.revision, self.at),
                });
            } else {
                let fits = self.standings[place] == Standing::Held;
                let view = pool.view(level, self.at, self.now);
                waiting.levels[place] = (fits, fits && level.cost > 0, view);
            }
        }
        let places = waiting.items.iter().map(|item| item.place);
        let replaced = places.map(|place| (place, asked.predecessors(place, self.at, self.parts_are_whole)));
        waiting.predecessors = replaced.filter(|(_, replaced)| !replaced.is_empty()).collect();
        let place = foreign.unwrap_or(asked.levels.len() - 1);
        let line = locked.shard(home).lines.entry(home);
        let line = line.or_insert_with(|| Line::new(asked.details.tag(place)));
        line.lane = asked.details.lane(place);
        line.push(waiting);
        Step::Waits(home)
    }

    /// The first level of another home that nothing is known of.
    fn lacks_elsewhere(&self, own: u64) -> Option<usize> {
        let lacking = |place: &usize| self.standings[*place] == Standing::Unknown;
        let mut places = (0..self.asked.levels.len()).filter(lacking);
        places.find(|place| self.asked.levels[*place].home != own)
    }

    /// Keeps tokens of other homes that are held, unless they end meanwhile.
    fn keep<W: Waiter>(&mut self, locked: &mut Locked<'_, W>, own: u64, clock: &mut dyn FnMut() -> Mono) {
        let (asked, lent) = (self.asked, self.kept.len());
        let mut ended = Mono::MAX;
        for (place, level) in asked.levels.iter().enumerate() {
            let has = self.kept.iter().any(|kept| kept.key == level.key);
            if level.home != own
                && self.standings[place] == Standing::Held
                && asked.takes(place)
                && !has
                && let Some(pool) = locked.pool(level)
            {
                let (end, holds) =
                    pool.keep(level.home, level.key, (level.cost, asked.most(place)), self.now);
                ended = ended.min(end);
                self.kept.extend(holds);
            }
        }
        let then = clock();
        for kept in &self.kept[lent..] {
            if let Some(pool) = locked.shard(kept.home).pools.get_mut(&kept.key) {
                pool.spent_by(self.now, then);
            }
        }
        if then < ended {
            return;
        }
        for kept in self.kept.drain(lent..) {
            let places = asked.levels.iter().zip(&mut self.standings);
            for (_, standing) in places.filter(|(level, _)| level.key == kept.key) {
                *standing = Standing::Unknown;
            }
        }
    }
}
