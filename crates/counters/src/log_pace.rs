//! Log lines that would come again and again while something is wrong: one a minute, with how many it stands for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lets one line a minute through.
#[derive(Debug, Default)]
pub struct LogPace {
    last: Mutex<Option<Instant>>,
    left_out: AtomicU64,
}

impl LogPace {
    /// The time between two lines.
    pub const EVERY: Duration = Duration::from_mins(1);

    /// A pace for one kind of line.
    pub const fn new() -> Self {
        Self {
            last: Mutex::new(None),
            left_out: AtomicU64::new(0),
        }
    }

    /// How many lines were left out since the last one, if another may be written now.
    pub fn turn(&self) -> Option<u64> {
        self.turn_at(Instant::now())
    }

    fn turn_at(&self, now: Instant) -> Option<u64> {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let early = last.is_some_and(|last| now.saturating_duration_since(last) < Self::EVERY);
        if early {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *last = Some(now);
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_says_how_many_were_left_out() {
        let pace = LogPace::new();
        let start = Instant::now();
        assert_eq!(pace.turn_at(start), Some(0));
        for second in 1..60 {
            assert_eq!(pace.turn_at(start + Duration::from_secs(second)), None);
        }
        assert_eq!(pace.turn_at(start + LogPace::EVERY), Some(59));
        assert_eq!(pace.turn_at(start + 2 * LogPace::EVERY), Some(0));
    }
}
