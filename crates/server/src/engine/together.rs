//! Several requests that are decided as one: all are charged, or none.
//!
//! Their stacks are joined into one, which the store decides as it decides any. A counter that several of them meet
//! is charged once, by the most that one of them costs.

use smallvec::SmallVec;
use tollgate_catalog::Request;
use tollgate_catalog::snapshot::{Limit, Snapshot, Stack};
use tollgate_core::{Algorithm, Former, Level, Mode, Timestamp};
use tollgate_counters::Commit;

use super::{Checked, Engine, Heard, MOST_WAITS, Patience, Undecided, Wait};
use crate::names::Whose;

/// One of the requests.
#[derive(Debug, Default)]
pub struct Part<'r> {
    /// The request.
    pub request: Request<'r>,
    /// A limit that it brings itself, in place of those that would apply.
    pub own: Option<Box<Limit>>,
}

/// Requests that are decided as one, with what applies to each.
pub struct Joined<'p, 's, 'r> {
    parts: &'p [Part<'r>],
    stacks: Vec<Stack<'s>>,
    /// Whence each level of the joined stack is: the part, and the place in its stack.
    origins: Vec<(usize, usize)>,
    former_origins: Vec<(usize, usize)>,
    /// Where the levels of each part are in the joined stack.
    places: Vec<SmallVec<[usize; 4]>>,
}

/// What was decided on all of them.
pub struct Together<'s> {
    /// The decision on the joined stack.
    pub checked: Checked<'s>,
    /// Where the levels of each part are in it.
    pub places: Vec<SmallVec<[usize; 4]>>,
    /// Which parts lead to a policy that is off, and so are not limited.
    pub unlimited: Vec<bool>,
}

impl<'s, 'r> Joined<'s, 's, 'r> {
    /// Resolves each part. A policy that one of them replaces counts for none.
    pub(crate) fn resolve(snapshot: &'s Snapshot, parts: &'s [Part<'r>], now: Timestamp) -> Self {
        let stacks = parts.iter().map(|part| match &part.own {
            Some(own) => snapshot.resolve_own(own, &part.request),
            None => {
                let mut stack = snapshot.blank();
                snapshot.resolve(&part.request, now, &mut stack);
                stack
            }
        });
        Self {
            parts,
            stacks: stacks.collect(),
            origins: Vec::new(),
            former_origins: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Joins the stacks, from broad to narrow. Of the parts that only all together can refuse, this one does: the
    /// first, or after it was refused the next.
    pub(crate) fn join(&mut self, snapshot: &'s Snapshot, turn: usize) -> Stack<'s> {
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (part, stack) in self.stacks.iter().enumerate() {
            let counts = |place: &usize| !self.is_replaced(stack.limits[*place]);
            order.extend((0..stack.limits.len()).filter(counts).map(|place| (part, place)));
        }
        let limit = |(part, place): (usize, usize)| self.stacks[part].limits[place];
        order.sort_by_key(|at| (limit(*at).scope.breadth(), &*limit(*at).id));
        let refuses = self.quota_parts().nth(turn);
        let mut joined = snapshot.blank();
        self.places = vec![SmallVec::new(); self.stacks.len()];
        self.origins.clear();
        for (part, place) in order {
            let (limit, mut level) = (self.stacks[part].limits[place], self.stacks[part].levels[place]);
            if limit.quota_mode && level.mode == Mode::Enforce && refuses != Some(part) {
                level.mode = Mode::Shadow;
            }
            let known =
                |at: &usize| joined.levels[*at].key == level.key && std::ptr::eq(joined.limits[*at], limit);
            let at = match (0..joined.levels.len()).find(known) {
                Some(at) => {
                    if level.mode == Mode::Enforce {
                        joined.levels[at].mode = Mode::Enforce;
                    }
                    at
                }
                None => {
                    joined.levels.push(level);
                    joined.limits.push(limit);
                    self.origins.push((part, place));
                    joined.levels.len() - 1
                }
            };
            self.places[part].push(at);
            for same in joined.levels.iter_mut().filter(|known| known.key == level.key) {
                same.cost = same.cost.max(level.cost);
                level.cost = same.cost;
            }
        }
        self.join_formers(&mut joined);
        self.describe(&mut joined);
        joined
    }

    /// Whether a limit of any part stands in for this one.
    fn is_replaced(&self, limit: &Limit) -> bool {
        let mut replaced = self.stacks.iter().flat_map(|stack| &stack.replaced);
        replaced.any(|id| *id == limit.policy_id())
    }

    /// The parts whose limits refuse only all together. One that is replaced would have room for good, and the others
    /// would refuse nothing.
    fn quota_parts(&self) -> impl Iterator<Item = usize> {
        let quota = |stack: &Stack<'_>| {
            let mut limits = stack.limits.iter().zip(&stack.levels);
            limits.any(|(limit, level)| {
                limit.quota_mode && level.mode == Mode::Enforce && !self.is_replaced(limit)
            })
        };
        let stacks = self.stacks.iter().enumerate();
        stacks
            .filter(move |(_, stack)| quota(stack))
            .map(|(part, _)| part)
    }

    /// Whether another of the parts that refuse only all together may have room, where one had none.
    pub(crate) fn has_another(&self, checked: &Checked<'_>, turn: usize) -> bool {
        if self.quota_parts().nth(turn + 1).is_none() {
            return false;
        }
        let levels = checked.stack.levels.iter().zip(&checked.stack.limits);
        let mut refusing = levels
            .zip(&checked.decision.outcomes)
            .filter(|((level, _), outcome)| !outcome.passes(level));
        refusing.all(|((_, limit), _)| limit.quota_mode)
    }

    fn join_formers(&mut self, joined: &mut Stack<'s>) {
        self.former_origins.clear();
        for (at, (part, place)) in self.origins.iter().enumerate() {
            for (number, former) in self.stacks[*part].formers.iter().enumerate() {
                if former.level == *place {
                    joined.formers.push(Former { level: at, ..*former });
                    self.former_origins.push((*part, number));
                }
            }
        }
    }

    /// Whose request it is, for metrics and sentences: that of the first part that names an org.
    fn describe(&self, joined: &mut Stack<'s>) {
        let named = self.parts.iter().position(|part| part.request.org.is_some());
        if let Some(stack) = self.stacks.get(named.unwrap_or(0)) {
            (joined.tier, joined.tier_index, joined.zone) = (stack.tier, stack.tier_index, stack.zone);
        }
        joined.class = self.stacks.iter().find_map(|stack| stack.class);
        joined.unreadable = self.stacks.iter().any(|stack| stack.unreadable);
    }

    /// What was decided.
    pub(crate) fn decided(self, checked: Checked<'s>) -> Together<'s> {
        Together {
            checked,
            places: self.places,
            unlimited: self.stacks.iter().map(|stack| stack.unlimited).collect(),
        }
    }
}

impl<'s, 'r> Joined<'_, 's, 'r> {
    /// The stack and the request that a level is of, and its place there.
    pub(crate) fn level(&self, place: usize) -> (&Stack<'s>, &Request<'r>, usize) {
        let (part, place) = self.origins[place];
        (&self.stacks[part], &self.parts[part].request, place)
    }

    /// The same of a counter that was replaced.
    pub(crate) fn former(&self, place: usize) -> (&Stack<'s>, &Request<'r>, usize) {
        let (part, place) = self.former_origins[place];
        (&self.stacks[part], &self.parts[part].request, place)
    }
}

/// Whether joining a stack with no other changes nothing: it is in order, no limit of it replaces another, and no two
/// count in one place.
fn stays_as_it_is(stack: &Stack<'_>) -> bool {
    let in_order =
        |one: &&Limit, next: &&Limit| (one.scope.breadth(), &*one.id) <= (next.scope.breadth(), &*next.id);
    let known = |place: usize| {
        let before = &stack.levels[..place];
        before.iter().any(|level| level.key == stack.levels[place].key)
    };
    stack.replaced.is_empty() && stack.limits.is_sorted_by(in_order) && !(1..stack.levels.len()).any(known)
}

/// Which of the parts that refuse only all together is asked, and what was heard of that.
pub type Resumed = (usize, Heard);

impl Engine {
    /// Decides several requests as one, perhaps after it had to wait.
    pub fn check_together<'s>(
        &self,
        snapshot: &'s Snapshot,
        parts: &'s [Part<'_>],
        commit: Commit,
        now: Timestamp,
        heard: Option<Resumed>,
    ) -> Result<Together<'s>, (usize, Undecided)> {
        if let ([part], None) = (parts, &heard)
            && let Some(decided) = self.check_alone(snapshot, part, commit, now)
        {
            return decided.map_err(|undecided| (0, undecided));
        }
        let mut joined = Joined::resolve(snapshot, parts, now);
        let (mut turn, mut answer) = match heard {
            Some((turn, answer)) => (turn, Some(answer)),
            None => (0, None),
        };
        loop {
            let mut checked = Checked {
                stack: joined.join(snapshot, turn),
                ..Checked::blank(snapshot, now)
            };
            let at = |undecided| (turn, undecided);
            self.look_over(&mut checked.stack).map_err(at)?;
            let whose = Whose::Several(&joined);
            let decided = match answer.take() {
                Some(answer) => self.go_on(&mut checked, whose, commit, answer),
                None => self.begin(&mut checked, whose, commit),
            };
            decided.map_err(at)?;
            if checked.decision.allowed || !joined.has_another(&checked, turn) {
                return Ok(joined.decided(checked));
            }
            turn += 1;
        }
    }

    /// Decides the only part as any request is, if joining would leave its stack as it is.
    #[inline]
    fn check_alone<'s>(
        &self,
        snapshot: &'s Snapshot,
        part: &'s Part<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Option<Result<Together<'s>, Undecided>> {
        let mut checked = Checked::blank(snapshot, now);
        if part.own.is_some() {
            return None;
        }
        snapshot.resolve(&part.request, now, &mut checked.stack);
        if !stays_as_it_is(&checked.stack) {
            return None;
        }
        let decided = self
            .look_over(&mut checked.stack)
            .and_then(|()| self.begin(&mut checked, Whose::One(&part.request), commit));
        Some(decided.map(|()| Together {
            places: vec![(0..checked.stack.levels.len()).collect()],
            unlimited: vec![checked.stack.unlimited],
            checked,
        }))
    }

    /// The same, waiting if that must be.
    pub async fn check_together_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        parts: &'s [Part<'_>],
        commit: Commit,
        now: Timestamp,
    ) -> Result<Together<'s>, Undecided> {
        match self.check_together(snapshot, parts, commit, now, None) {
            // In a box: most don't wait.
            Err((turn, Undecided::Waits(wait))) => {
                Box::pin(self.check_together_after(turn, wait, snapshot, parts, commit, now)).await
            }
            decided => decided.map_err(|(_, undecided)| undecided),
        }
    }

    async fn check_together_after<'s>(
        &self,
        mut turn: usize,
        mut wait: Wait,
        snapshot: &'s Snapshot,
        parts: &'s [Part<'_>],
        commit: Commit,
        now: Timestamp,
    ) -> Result<Together<'s>, Undecided> {
        // Each of them may have a counter that spans orgs, which is asked for by itself.
        let most = MOST_WAITS + u32::try_from(parts.len()).unwrap_or(u32::MAX / 2);
        let mut patience = Patience::of(most);
        while !patience.is_over() {
            let heard = Some((turn, wait.answer(&mut patience).await));
            match self.check_together(snapshot, parts, commit, now, heard) {
                Err((again, Undecided::Waits(next))) => (turn, wait) = (again, next),
                decided => return decided.map_err(|(_, undecided)| undecided),
            }
        }
        Err(Undecided::Waits(wait))
    }

    /// Gives back what a request costs, no more than was used, and says what there is then. In a fleet that is no more than
    /// was spent of what this node holds on lease, and there may be nothing to say. Quotas of a ledger that nodes share are
    /// given nothing back: a node does not know how much of their count is its own.
    pub fn give_back<'s>(
        &self,
        snapshot: &'s Snapshot,
        part: &'s Part<'_>,
        now: Timestamp,
        commit: Commit,
    ) -> Option<Together<'s>> {
        let mut joined = Joined::resolve(snapshot, std::slice::from_ref(part), now);
        let mut stack = joined.join(snapshot, 0);
        if commit == Commit::Charge {
            let is_shared = self.ledger.get().is_some_and(|ledger| ledger.is_shared());
            let kept = |level: &Level<'_>| is_shared && matches!(level.rule.algorithm, Algorithm::Quota(_));
            let levels: Vec<_> = stack
                .levels
                .iter()
                .copied()
                .filter(|level| !kept(level))
                .collect();
            match self.shared.get() {
                Some(shared) => shared.give_back(&levels),
                None => self.store.give_back(&levels, now),
            }
        }
        for level in &mut stack.levels {
            level.cost = 0;
        }
        let mut checked = Checked {
            stack,
            ..Checked::blank(snapshot, now)
        };
        if self.shared.get().is_some() {
            self.begin(&mut checked, Whose::Several(&joined), Commit::DryRun)
                .ok()?;
        } else {
            self.decide_here(&mut checked, Commit::DryRun).ok()?;
        }
        Some(joined.decided(checked))
    }
}
