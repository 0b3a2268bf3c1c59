//! What a counter begins with that replaces others.

use tollgate_core::{Algorithm, Cell, Former, Level, Mode, Timestamp};

use super::front::Front;
use super::shard::Found;
use super::{Locked, MemoryStore, shard_index};

impl MemoryStore {
    /// The least that any of the counters has left that a level replaces, of those that were touched.
    pub fn room_left<'a>(
        &self,
        level: &Level<'_>,
        formers: impl Iterator<Item = &'a Former<'a>>,
        now: Timestamp,
    ) -> u64 {
        let left = formers.filter_map(|former| {
            if !former.whole {
                let cell = level.rule.used_up(former.left, level.calendar, now);
                return Some(level.rule.remaining(cell, now));
            }
            let mut shard = self.shards[shard_index(former.home)].0.lock();
            left_of(&mut shard, former, now)
        });
        left.min().unwrap_or(u64::MAX)
    }
}

/// The cell of a counter that replaces others: untouched, it has no more room than the tightest of them had left. A
/// bucket that was left for them and is come back to, as untouched as when they were, has not either: its cell knows when
/// it was last charged.
pub(super) fn inherit<'a>(
    shards: &mut impl Locked,
    level: &Level<'_>,
    touched: Option<Cell>,
    formers: impl Iterator<Item = &'a Former<'a>>,
    now: Timestamp,
) -> Cell {
    let Some(cell) = touched else {
        return begin(shards, level, formers, now);
    };
    if !matches!(
        level.rule.algorithm,
        Algorithm::TokenBucket | Algorithm::LeakyBucket
    ) {
        return cell;
    }
    let since = formers.filter(|former| former.whole && cell.as_of() < former.left.nanos());
    let left = since.filter_map(|former| left_of(shards.shard(former.home), former, now));
    let own = level
        .rule
        .advance(cell, level.calendar, now, level.mode == Mode::Soft);
    match left.min() {
        // What is left is in whole tokens, of which the other may have a part less.
        Some(left) if left <= level.rule.remaining(own, now) => {
            level.rule.opened_with(left, level.calendar, now)
        }
        _ => cell,
    }
}

fn begin<'a>(
    shards: &mut impl Locked,
    level: &Level<'_>,
    formers: impl Iterator<Item = &'a Former<'a>>,
    now: Timestamp,
) -> Cell {
    let (mut room, mut lost) = (level.rule.capacity, None);
    for former in formers {
        if former.whole {
            let left = left_of(shards.shard(former.home), former, now);
            room = room.min(left.unwrap_or(room));
        } else {
            lost = lost.max(Some(former.left));
        }
    }
    let cell = lost.map_or_else(Cell::default, |lost| {
        level.rule.used_up(lost, level.calendar, now)
    });
    let left = lost.map_or(level.rule.capacity, |_| level.rule.remaining(cell, now));
    if room < left {
        level.rule.opened_with(room, level.calendar, now)
    } else {
        cell
    }
}

/// What a counter has left, if it was touched.
fn left_of(shard: &mut Front, former: &Former<'_>, now: Timestamp) -> Option<u64> {
    let (found, cell) = shard.load(former.rule, former.key, 0, now);
    if matches!(found, Found::Absent) {
        return None;
    }
    let cell = former.rule.advance(cell, former.calendar, now, false);
    Some(former.rule.remaining(cell, now))
}
