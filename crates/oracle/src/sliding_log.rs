//! Sliding window log.

use crate::limit::Level;

/// Everything that was ever charged. Nothing is forgotten, it only stops to count.
#[derive(Debug, Clone)]
pub(crate) struct SlidingLog {
    /// When, and how much.
    entries: Vec<(u128, u64)>,
}

impl SlidingLog {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(crate) fn fits(&self, level: &Level, time: u128) -> bool {
        self.used(level, time) + u128::from(level.cost) <= u128::from(level.limit.limit)
    }

    pub(crate) fn take(&mut self, level: &Level, time: u128) {
        self.entries.push((self.not_before(time), level.cost));
    }

    pub(crate) fn take_less(&mut self, back: u64) {
        if let Some((_, cost)) = self.entries.last_mut() {
            *cost -= back;
        }
    }

    pub(crate) fn remaining(&self, level: &Level, time: u128) -> u64 {
        let left = u128::from(level.limit.limit).saturating_sub(self.used(level, time));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// The time until the last entry has left; none with none.
    pub(crate) fn empty_in(&self, level: &Level, time: u128) -> u128 {
        let window = u128::from(level.limit.window_ns);
        let last = self.entries.last().map_or(0, |(at, _)| at + window);
        last.saturating_sub(time)
    }

    /// An entry leaves when its age reaches the window.
    fn used(&self, level: &Level, time: u128) -> u128 {
        let time = self.not_before(time);
        let young = |at: u128| time - at < u128::from(level.limit.window_ns);
        let entries = self.entries.iter().filter(|(at, _)| young(*at));
        entries.map(|(_, cost)| u128::from(*cost)).sum()
    }

    /// A clock behind the newest entry counts as being at it.
    fn not_before(&self, time: u128) -> u128 {
        time.max(self.newest())
    }

    fn newest(&self) -> u128 {
        self.entries.last().map_or(0, |(at, _)| *at)
    }
}
