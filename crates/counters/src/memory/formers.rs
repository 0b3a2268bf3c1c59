//! What a counter begins with that replaces others.

use tollgate_core::{Cell, Former, Level, Mode, Timestamp};

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
    formers: impl Iterator<Item = &'a Former<'a>> + Clone,
    now: Timestamp,
) -> Cell {
    let is_bucket = level.rule.algorithm.is_bucket();
    match touched {
        None => {
            let others = formers.clone().filter(|former| !(is_bucket && former.goes_on));
            let cell = begin(shards, level, others, now);
            let same = formers.filter(|former| is_bucket && former.goes_on);
            narrow(shards, level, cell, same, now)
        }
        Some(cell) if is_bucket => {
            let since = formers.filter(|former| former.whole && cell.as_of() < former.left.nanos());
            narrow(shards, level, cell, since, now)
        }
        Some(cell) => cell,
    }
}

/// A bucket that has no more room than others have left.
fn narrow<'a>(
    shards: &mut impl Locked,
    level: &Level<'_>,
    cell: Cell,
    formers: impl Iterator<Item = &'a Former<'a>>,
    now: Timestamp,
) -> Cell {
    let overdraw = level.mode == Mode::Soft;
    formers.fold(cell, |cell, former| {
        let Some(theirs) = found(shards.shard(former.home), former, now) else {
            return cell;
        };
        let own = level.rule.advance(cell, level.calendar, now, overdraw);
        let left = former.rule.remaining(theirs, now);
        match former.goes_on {
            true if theirs.debt() > own.debt() => theirs,
            // What is left is in whole tokens, of which the other may have a part less.
            false if left <= level.rule.remaining(own, now) => {
                level.rule.opened_with(left, level.calendar, now)
            }
            _ => cell,
        }
    })
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
    // Of a bucket that was used up, a part of a token may have come back beside the whole ones that are left.
    let fraction = room == left && lost.is_some() && level.rule.algorithm.is_bucket();
    if room < left || fraction {
        level.rule.opened_with(room, level.calendar, now)
    } else {
        cell
    }
}

/// What a counter has left, if it was touched.
fn left_of(shard: &mut Front, former: &Former<'_>, now: Timestamp) -> Option<u64> {
    found(shard, former, now).map(|cell| former.rule.remaining(cell, now))
}

/// A counter's cell, brought to now, if it was touched.
fn found(shard: &mut Front, former: &Former<'_>, now: Timestamp) -> Option<Cell> {
    let (found, cell) = shard.load(former.rule, former.key, 0, now);
    if matches!(found, Found::Absent) {
        return None;
    }
    Some(former.rule.advance(cell, former.calendar, now, false))
}
