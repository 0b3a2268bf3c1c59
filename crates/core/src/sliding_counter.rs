//! Sliding window counter: the previous window's count fades out linearly while the current one fills.
//!
//! Everything is compared after multiplication by the window, so the weighted sum is exact.

use crate::cell::Cell;
use crate::fixed_window::next_boundary;
use crate::rule::Rule;
use crate::time::{Nanos, Timestamp};

struct View {
    end: u64,
    previous: u64,
    current: u64,
    /// How much of the window is still ahead; the previous count weighs in by this share.
    ahead: u64,
}

#[inline]
fn view(rule: &Rule, cell: Cell, now: Timestamp) -> View {
    let [end, previous, current] = cell.0;
    // A clock behind the window's start counts as being at the start.
    let ahead = end.saturating_sub(now.nanos()).min(rule.window_ns);
    View {
        end,
        previous,
        current,
        ahead,
    }
}

#[inline]
pub(crate) fn advance(rule: &Rule, cell: Cell, now: Timestamp) -> Cell {
    let [end, _, current] = cell.0;
    let now = now.nanos();
    if now < end {
        cell
    } else if now - end < rule.window_ns && end != 0 {
        Cell([end.saturating_add(rule.window_ns), current, 0])
    } else {
        Cell([next_boundary(now, rule.window_ns), 0, 0])
    }
}

#[inline]
pub(crate) fn fits(rule: &Rule, cell: Cell, cost: u64, now: Timestamp) -> bool {
    let view = view(rule, cell, now);
    let wanted = u128::from(view.current) + u128::from(cost);
    faded(&view) + wanted * u128::from(rule.window_ns) <= full(rule)
}

pub(crate) fn charge(cell: Cell, cost: u64) -> Cell {
    let [end, previous, current] = cell.0;
    Cell([end, previous, current.saturating_add(cost)])
}

pub(crate) fn remaining(rule: &Rule, cell: Cell, now: Timestamp) -> u64 {
    let view = view(rule, cell, now);
    let used = faded(&view) + u128::from(view.current) * u128::from(rule.window_ns);
    let room = full(rule).saturating_sub(used);
    match u64::try_from(room) {
        Ok(room) => room / rule.window_ns,
        Err(_) => u64::try_from(room / u128::from(rule.window_ns)).unwrap_or(u64::MAX),
    }
}

pub(crate) fn reset(cell: Cell, now: Timestamp) -> Nanos {
    now.until_nanos(cell.0[0])
}

/// The time until `cost` fits; the caller has checked `cost <= limit`.
pub(crate) fn wait(rule: &Rule, cell: Cell, cost: u64, now: Timestamp) -> Nanos {
    let View {
        end,
        previous,
        current,
        ..
    } = view(rule, cell, now);
    let room = rule.limit.saturating_sub(cost);
    // Within this window only the previous count fades; with the next, the current one begins to.
    let at = if current <= room {
        faded_to(end, previous, room - current, rule.window_ns)
    } else {
        faded_to(end.saturating_add(rule.window_ns), current, room, rule.window_ns)
    };
    now.until_nanos(at)
}

/// The first instant at which `count`, fading out towards `end`, has come down to `room`.
fn faded_to(end: u64, count: u64, room: u64, window: u64) -> u64 {
    if count <= room {
        return end.saturating_sub(window);
    }
    let ahead = u128::from(room) * u128::from(window) / u128::from(count);
    end.saturating_sub(u64::try_from(ahead).unwrap_or(u64::MAX))
}

#[inline]
fn faded(view: &View) -> u128 {
    u128::from(view.previous) * u128::from(view.ahead)
}

#[inline]
fn full(rule: &Rule) -> u128 {
    u128::from(rule.limit) * u128::from(rule.window_ns)
}
