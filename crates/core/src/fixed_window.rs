//! Fixed windows and calendar quotas: a count that ends at a known instant.
//!
//! The cell keeps the window's *end*, so a window in progress runs to the end it was opened with, whatever
//! happens to the clock or to an org's time zone meanwhile.

use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::rule::{Algorithm, Anchor, Rule};
use crate::time::{Nanos, Timestamp};

#[inline]
pub(crate) fn advance(rule: &Rule, cell: Cell, calendar: &Calendar<'_>, now: Timestamp) -> Cell {
    if now.nanos() < cell.0[0] {
        return cell;
    }
    Cell([end(rule, calendar, now), 0, 0])
}

/// When a window ends that is opened now.
#[inline(never)]
fn end(rule: &Rule, calendar: &Calendar<'_>, now: Timestamp) -> u64 {
    match rule.algorithm {
        Algorithm::Quota(period) => calendar.period(period, now).1.nanos(),
        Algorithm::FixedWindow(Anchor::First) => now.nanos().saturating_add(rule.window_ns),
        _ => next_boundary(now.nanos(), rule.window_ns),
    }
}

#[inline]
pub(crate) fn fits(rule: &Rule, cell: Cell, cost: u64) -> bool {
    cell.0[1].saturating_add(cost) <= rule.limit
}

pub(crate) fn charge(cell: Cell, cost: u64) -> Cell {
    let [end, count, allowance] = cell.0;
    Cell([end, count.saturating_add(cost), allowance])
}

pub(crate) fn remaining(rule: &Rule, cell: Cell) -> u64 {
    rule.limit.saturating_sub(cell.0[1])
}

pub(crate) fn reset(cell: Cell, now: Timestamp) -> Nanos {
    now.until_nanos(cell.0[0])
}

/// The next multiple of `window` after `now`.
pub(crate) fn next_boundary(now: u64, window: u64) -> u64 {
    (now / window).saturating_add(1).saturating_mul(window)
}
