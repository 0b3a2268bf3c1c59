//! What a connection knows of the server at its other end: who it is, and what time it has.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server with the memory it has: a restart, a promotion or a full copy of another's data makes another owner.
/// It is the run id and the replication id, and for a server that has evicted keys how many.
///
/// The latter changes without any loss, too: when a server gets its first replica, or its first one after an hour
/// without any (`repl-backlog-ttl`). See [`Redis::is_same`](super::Redis::is_same).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// An owner by its two ids.
    pub fn new(run_id: &str, replication_id: &str) -> Self {
        Self(format!("{run_id}:{replication_id}").into())
    }

    /// An owner as a slot's sentinel has it.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether both are the same process, though its replication id may have changed.
    pub fn is_same_run(&self, other: &Self) -> bool {
        let run = |owner: &Self| owner.0.split(':').next().map(str::to_owned);
        run(self) == run(other)
    }

    /// As it is passed to scripts.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One connection's view of its server, as it was learnt last.
#[derive(Debug, Clone)]
pub struct Link {
    pub(super) owner: Owner,
    pub(super) promoted: bool,
    /// By which policy it evicts keys, if it does.
    pub(super) evicts: Option<String>,
    pub(super) time: StoreTime,
    /// When the question was sent that the owner answered.
    pub(super) asked: Instant,
}

impl Link {
    /// Whom this connection reaches.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Whether the server was a replica before, as far as it remembers: it forgets that after an hour without replicas.
    /// The same run with another replication id that was never promoted has lost nothing.
    pub const fn is_promoted(&self) -> bool {
        self.promoted
    }

    /// The least and the greatest that the server's clock may show at an instant, in microseconds since 1970. A clock
    /// that is set meanwhile is noticed within half a second, and so is the sleep of a suspended machine.
    pub fn store_time(&self, now: Instant) -> RangeInclusive<u64> {
        self.time.at(now)
    }
}

/// A server's clock, as it once answered `TIME`.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreTime {
    told_us: u64,
    sent: Instant,
    received: Instant,
}

impl StoreTime {
    /// Clocks differ in speed by less than one in this many.
    const DRIFT: u64 = 1000;

    pub(super) const fn new(told_us: u64, sent: Instant, received: Instant) -> Self {
        Self {
            told_us,
            sent,
            received,
        }
    }

    fn at(&self, now: Instant) -> RangeInclusive<u64> {
        let drift = micros(now.saturating_duration_since(self.sent)) / Self::DRIFT;
        let after = |told_us: u64, from: Instant| match now.checked_duration_since(from) {
            Some(later) => told_us.saturating_add(micros(later)),
            None => told_us.saturating_sub(micros(from - now)),
        };
        // Each of the three times is cut off below a microsecond.
        let least = after(self.told_us, self.received).saturating_sub(drift + 1);
        let greatest = after(self.told_us, self.sent).saturating_add(drift + 2);
        least..=greatest
    }

    /// The better one of two, the later of which contradicts the earlier if the server's clock was set.
    pub(super) fn or_later(self, later: Self) -> Self {
        let width = |range: &RangeInclusive<u64>| range.end() - range.start();
        let (old, new) = (self.at(later.received), later.at(later.received));
        let agree = old.start() <= new.end() && new.start() <= old.end();
        if agree && width(&old) < width(&new) {
            self
        } else {
            later
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_servers_time_lies_between_two_bounds() {
        let sent = Instant::now() + Duration::from_secs(10);
        let time = StoreTime::new(1_000_000, sent, sent + 4 * MS);
        assert_eq!(time.at(sent + 4 * MS), 1_000_000 - 5..=1_004_000 + 6);
        assert_eq!(time.at(sent + 1000 * MS), 1_996_000 - 1001..=2_000_000 + 1002);
        let before = sent.checked_sub(10 * MS).unwrap();
        assert_eq!(time.at(before), 986_000 - 1..=990_000 + 2);
    }

    #[test]
    fn a_quick_answer_is_kept_until_drift_has_made_it_worse_than_a_slow_one() {
        let sent = Instant::now();
        let quick = StoreTime::new(1_000_000, sent, sent + MS);
        let slow =
            |after: Duration, told_us: u64| StoreTime::new(told_us, sent + after, sent + after + 10 * MS);
        assert_eq!(quick.or_later(slow(500 * MS, 1_505_000)).told_us, 1_000_000);
        assert_eq!(quick.or_later(slow(9000 * MS, 10_005_000)).told_us, 10_005_000);
        assert_eq!(
            quick.or_later(slow(500 * MS, 1_405_000)).told_us,
            1_405_000,
            "the clock was set back"
        );
    }
}
