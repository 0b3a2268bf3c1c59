//! One limit's count, whatever its algorithm.

use crate::bucket::Bucket;
use crate::limit::{Kind, Level};
use crate::search::least;
use crate::sliding_counter::SlidingCounter;
use crate::sliding_log::SlidingLog;
use crate::window::Window;

/// A count, and the questions that a decision asks of it. Its words do not hold the limit: a new limit or
/// burst meets the same count, while a new kind or window needs a new counter.
#[derive(Debug, Clone)]
pub struct Counter(State);

#[derive(Debug, Clone)]
enum State {
    Bucket(Bucket),
    Window(Window),
    SlidingLog(SlidingLog),
    SlidingCounter(SlidingCounter),
}

impl Counter {
    /// An untouched counter.
    pub fn new(kind: Kind) -> Self {
        Self(match kind {
            Kind::TokenBucket | Kind::LeakyBucket => State::Bucket(Bucket::new()),
            Kind::SlidingLog => State::SlidingLog(SlidingLog::new()),
            Kind::SlidingCounter => State::SlidingCounter(SlidingCounter::new()),
            _ => State::Window(Window::new()),
        })
    }

    /// Whether the level's cost fits. A cost of 0 always does.
    pub fn fits(&self, level: &Level, time: u128) -> bool {
        if level.cost == 0 || !level.limit.ever_admits(level.cost) {
            return level.cost == 0;
        }
        match &self.0 {
            State::Bucket(bucket) => bucket.fits(level, time),
            State::Window(window) => window.fits(level, time),
            State::SlidingLog(log) => log.fits(level, time),
            State::SlidingCounter(counter) => counter.fits(level, time),
        }
    }

    /// Charges the level's cost, whether it fits or not. A cost of 0 changes nothing and opens no window.
    pub fn take(&mut self, level: &Level, time: u128) {
        if level.cost == 0 {
            return;
        }
        match &mut self.0 {
            State::Bucket(bucket) => bucket.take(level, time),
            State::Window(window) => window.take(level, time),
            State::SlidingLog(log) => log.take(level, time),
            State::SlidingCounter(counter) => counter.take(level, time),
        }
    }

    /// Has taken less after all: what was taken last, at that very instant, was too much by `back`.
    pub fn take_less(&mut self, back: u64) {
        match &mut self.0 {
            State::Bucket(bucket) => bucket.take_less(back),
            State::Window(window) => window.take_less(back),
            State::SlidingLog(log) => log.take_less(back),
            State::SlidingCounter(counter) => counter.take_less(back),
        }
    }

    /// What is left, rounded down. Of a limit of 0 nothing ever is.
    pub fn remaining(&self, level: &Level, time: u128) -> u64 {
        if level.limit.limit == 0 {
            return 0;
        }
        match &self.0 {
            State::Bucket(bucket) => bucket.remaining(level, time),
            State::Window(window) => window.remaining(level, time),
            State::SlidingLog(log) => log.remaining(level, time),
            State::SlidingCounter(counter) => counter.remaining(level, time),
        }
    }

    /// The time to the window's end; for buckets until full (leaky: empty), for a log until empty.
    pub fn reset_ns(&self, level: &Level, time: u128) -> u128 {
        match &self.0 {
            State::Bucket(bucket) => bucket.drained_in(level, time),
            State::Window(window) => window.end(level, time) - time,
            State::SlidingLog(log) => log.empty_in(level, time),
            State::SlidingCounter(counter) => counter.end(level, time) - time,
        }
    }

    /// The least wait after which the level's cost fits if nothing else comes; `None` if it never will.
    /// Found by trying, so that it needs no formula.
    pub fn wait_ns(&self, level: &Level, time: u128) -> Option<u128> {
        level
            .limit
            .ever_admits(level.cost)
            .then(|| least(level.guess_ns, |wait| self.fits(level, time + wait)))
    }

    /// The least wait after which more is left than now; for windows the time to their end. 0 if there
    /// can't be more.
    pub fn next_unit_ns(&self, level: &Level, time: u128) -> u128 {
        if let State::Window(_) = self.0 {
            return self.reset_ns(level, time);
        }
        let left = self.remaining(level, time);
        if level.limit.limit == 0 || left == level.limit.capacity() {
            return 0;
        }
        least(level.guess_ns, |wait| self.remaining(level, time + wait) > left)
    }

    /// How long a request that joins a leaky bucket now waits for its turn; other kinds hold nobody back.
    pub fn delay_ns(&self, level: &Level, time: u128) -> u128 {
        match &self.0 {
            State::Bucket(bucket) if level.limit.kind == Kind::LeakyBucket => bucket.drained_in(level, time),
            _ => 0,
        }
    }
}
