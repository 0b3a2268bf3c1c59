//! Token bucket and leaky bucket: one arithmetic, seen from two sides.
//!
//! Both keep a *debt*: tokens taken and not yet refilled, or requests queued and not yet drained. It falls
//! by `limit` tokens a window. Counted in units of 1/window token (window in nanoseconds), every step is a
//! whole number: a token is `window` units, and `limit` units drain each nanosecond.

use crate::cell::Cell;
use crate::rule::Rule;
use crate::time::{Nanos, Timestamp};

/// The debt lets at most this much pile up under a soft limit, so that sums never overflow.
const MAX_DEBT: u128 = 1 << 120;

#[inline]
fn capacity(rule: &Rule) -> u128 {
    u128::from(rule.capacity) * u128::from(rule.window_ns)
}

/// Drains the debt up to `now`. A clock that went back drains nothing. An enforced bucket never owes more
/// than it holds: after its burst was lowered it is as if the last charge had just emptied it. That comes
/// before the draining, since a denial is not written back and must not hold up the refill that it promised.
#[inline]
pub(crate) fn advance(rule: &Rule, cell: Cell, now: Timestamp, overdraw: bool) -> Cell {
    let at = cell.as_of();
    let then = now.nanos().max(at);
    let mut owed = cell.debt();
    if !overdraw {
        owed = owed.min(capacity(rule));
    }
    let drained = u128::from(rule.limit) * u128::from(then - at);
    Cell::owing(owed.saturating_sub(drained), then)
}

#[inline]
pub(crate) fn fits(rule: &Rule, cell: Cell, cost: u64) -> bool {
    cell.debt()
        .saturating_add(u128::from(cost) * u128::from(rule.window_ns))
        <= capacity(rule)
}

#[inline]
pub(crate) fn charge(rule: &Rule, cell: Cell, cost: u64) -> Cell {
    let owed = cell
        .debt()
        .saturating_add(u128::from(cost) * u128::from(rule.window_ns));
    Cell::owing(owed.min(MAX_DEBT), cell.as_of())
}

/// The cell had `tokens` not been taken.
#[inline]
pub(crate) fn uncharge(rule: &Rule, cell: Cell, tokens: u64) -> Cell {
    let returned = u128::from(tokens) * u128::from(rule.window_ns);
    Cell::owing(cell.debt().saturating_sub(returned), cell.as_of())
}

/// What it holds but for what it owes, of which a part of a token is as good as a whole one.
#[inline]
pub(crate) fn remaining(rule: &Rule, cell: Cell) -> u64 {
    let owed = cell.debt();
    // The narrow division is several times faster, and nearly always enough.
    let tokens = match u64::try_from(owed) {
        Ok(owed) => owed.div_ceil(rule.window_ns),
        Err(_) => u64::try_from(owed.div_ceil(u128::from(rule.window_ns))).unwrap_or(u64::MAX),
    };
    rule.capacity.saturating_sub(tokens)
}

/// The time until the debt is gone: full again, or drained.
#[inline]
pub(crate) fn reset(rule: &Rule, cell: Cell, now: Timestamp) -> Nanos {
    lag(cell, now) + drain_time(rule, cell.debt())
}

/// The time until `cost` fits; the caller has checked that it fits at all.
pub(crate) fn wait(rule: &Rule, cell: Cell, cost: u64, now: Timestamp) -> Nanos {
    let owed = cell
        .debt()
        .saturating_add(u128::from(cost) * u128::from(rule.window_ns));
    lag(cell, now) + drain_time(rule, owed.saturating_sub(capacity(rule)))
}

/// How long a request that has just joined the queue waits for its turn: what is ahead of it, drained.
pub(crate) fn turn(rule: &Rule, cell: Cell, cost: u64, now: Timestamp) -> Nanos {
    let own = u128::from(cost) * u128::from(rule.window_ns);
    lag(cell, now) + drain_time(rule, cell.debt().saturating_sub(own))
}

/// Whether it owes no more than it holds, and its own time is not ahead of the clock.
#[inline]
pub(crate) fn is_within(rule: &Rule, cell: Cell, now: Timestamp) -> bool {
    cell.as_of() <= now.nanos() && cell.debt() <= capacity(rule)
}

/// How far the cell's own time is ahead of a clock that stepped back.
#[inline]
fn lag(cell: Cell, now: Timestamp) -> Nanos {
    now.until_nanos(cell.as_of())
}

#[inline]
fn drain_time(rule: &Rule, owed: u128) -> Nanos {
    match (u64::try_from(owed), rule.limit) {
        (_, 0) => Nanos::MAX,
        (Ok(owed), limit) => Nanos::from(owed.div_ceil(limit)),
        (Err(_), limit) => owed.div_ceil(u128::from(limit)),
    }
}
