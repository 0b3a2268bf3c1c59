//! A case in progress: the core, its clock and its last answer.

use tollgate_core::MAX_LIMIT;
use tollgate_oracle::{Level, LevelVerdict, Limit, Mode, Verdict};

use crate::steps::{Cost, LAST_MOMENT, Start, Step, Tick};
use crate::subject::{Answer, Subject};

#[derive(Debug, Clone)]
pub(crate) struct Walk {
    pub(crate) limits: Vec<(Limit, Mode)>,
    pub(crate) subject: Subject,
    pub(crate) now: u64,
    last: Option<Verdict>,
}

impl Walk {
    /// A stack of limits, broad to narrow.
    pub(crate) fn new(limits: &[(Limit, Mode)], start: Start) -> Self {
        Self {
            limits: limits.to_vec(),
            subject: Subject::default(),
            now: start.nanos(limits[0].0.window_ns),
            last: None,
        }
    }

    /// One enforced limit on its own.
    pub(crate) fn alone(limit: Limit, start: Start) -> Self {
        Self::new(&[(limit, Mode::Enforce)], start)
    }

    /// Moves the clock, by the measure of the level at `place`.
    pub(crate) fn tick(&mut self, tick: Tick, place: usize) {
        let window = self.limits[place].0.window_ns;
        let wait = self.last.as_ref().and_then(|last| last.retry_ns).unwrap_or(0);
        let reset = self.last_of(place).map_or(0, |last| last.reset_ns);
        self.now = tick.after(self.now, window, wait, reset);
    }

    /// What a request costs the level at `place`. No edge lets a cost above the largest limit through to a
    /// soft level, which would have to count it.
    pub(crate) fn units(&self, cost: Cost, place: usize) -> u64 {
        let (limit, mode) = self.limits[place];
        let units = cost.units(limit.capacity(), self.last_of(place));
        if mode == Mode::Soft {
            units.min(MAX_LIMIT)
        } else {
            units
        }
    }

    /// The stack as a request meets it that costs every level so much.
    pub(crate) fn stack(&self, cost: impl Fn(usize) -> u64) -> Vec<Level> {
        (0..)
            .zip(&self.limits)
            .enumerate()
            .map(|(place, (counter, (limit, mode)))| Level::new(*limit, *mode, cost(place), counter))
            .collect()
    }

    /// Asks the core, and remembers its answer for the next step.
    pub(crate) fn decide(&mut self, stack: &[Level]) -> Answer {
        let answer = self.subject.decide(stack, self.now);
        self.last = Some(answer.verdict.clone());
        answer
    }

    /// A step of a single limit. Returns what it cost and how it was decided.
    pub(crate) fn step(&mut self, step: Step) -> (u64, Verdict) {
        self.tick(step.tick, 0);
        let cost = self.units(step.cost, 0);
        let stack = self.stack(|_| cost);
        (cost, self.decide(&stack).verdict)
    }

    /// What the core would say at some time, on a copy.
    pub(crate) fn ask(&self, cost: u64, at: u64) -> Verdict {
        self.subject.clone().decide(&self.stack(|_| cost), at).verdict
    }

    /// The clock after a wait, if that is within time.
    pub(crate) fn after(&self, wait: u128) -> Option<u64> {
        let then = u64::try_from(u128::from(self.now) + wait).ok()?;
        (then <= LAST_MOMENT).then_some(then)
    }

    fn last_of(&self, place: usize) -> Option<&LevelVerdict> {
        self.last.as_ref().map(|last| &last.levels[place])
    }
}
