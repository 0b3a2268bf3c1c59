//! A decision as a `tollgate.v1.CheckLimitResponse`: as a message for whoever is asked without a connection, or written
//! straight to where it is sent from.

use std::ops::Range;

use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Level, Mode, Nanos, Outcome, Retry, Timestamp};
use tollgate_proto::Message;
use tollgate_proto::v1::{CheckLimitResponse, Denial, Problem as ProblemMessage};

use crate::answer::{
    HeaderStyles, Problem, denial_error, denial_message, millis_up, mode_name, retry_after_seconds, rfc3339,
    write_headers,
};
use crate::engine::Checked;
use crate::wire::write::Packed;
use crate::wire::{Kept, write};

/// A millisecond.
const MILLI: Nanos = 1_000_000;

/// What was just written of the first levels of a stack: in a batch most of it is the same again.
#[derive(Default)]
pub(super) struct Seen<'s> {
    levels: [SeenLevel<'s>; 4],
}

#[derive(Default)]
struct SeenLevel<'s> {
    /// What it was of, but for what remained and the time to its reset.
    of: Option<(&'s Limit, Timestamp, Mode, bool)>,
    /// The times to a reset for which the rest is the same, and the debts of a bucket that lead to those.
    resets: Range<Nanos>,
    debts: Option<Range<u128>>,
    written: Kept,
}

/// What is told of a level.
struct Told<'a, 's> {
    limit: &'s Limit,
    level: &'a Level<'s>,
    outcome: &'a Outcome,
    now: Timestamp,
}

impl<'s> Told<'_, 's> {
    fn write(&self, out: &mut Vec<u8>) {
        self.write_head(out);
        write::number(4, self.outcome.remaining, out);
        self.write_tail(out);
    }

    fn reset(&self) -> Nanos {
        self.outcome.reset(self.level, self.now)
    }

    /// The fields before what remains.
    fn write_head(&self, out: &mut Vec<u8>) {
        write::text(1, self.limit.id.as_bytes(), out);
        write::text(2, self.limit.scope_name.as_bytes(), out);
        write::number(3, self.limit.rule.limit, out);
    }

    /// The fields after what remains.
    fn write_tail(&self, out: &mut Vec<u8>) {
        write_reset(self.now, self.reset(), out);
        write::text(7, mode_name(self.level.mode).as_bytes(), out);
        write::number(8, (!self.outcome.fits).into(), out);
    }

    #[inline]
    fn of(&self) -> (&'s Limit, Timestamp, Mode, bool) {
        (self.limit, self.now, self.level.mode, self.outcome.fits)
    }
}

impl<'s> SeenLevel<'s> {
    /// Appends a level, of which most was said before. Not so if it is longer than what is remembered.
    #[inline]
    fn write_again(&mut self, told: &Told<'_, 's>, out: &mut Vec<u8>) -> bool {
        let Some(remaining) = Packed::number(4, told.outcome.remaining) else {
            return false;
        };
        if self.says_the_same_of(told) && self.written.write_with(remaining, out) {
            return true;
        }
        self.of = Some(told.of());
        self.resets = told_alike(told.now, told.reset());
        self.debts = told.level.rule.debts_until(&self.resets);
        let (head, tail) = (
            |out: &mut _| told.write_head(out),
            |out: &mut _| told.write_tail(out),
        );
        self.written.renew(8, head, remaining, tail);
        self.written.write_with(remaining, out)
    }

    #[inline]
    fn says_the_same_of(&self, told: &Told<'_, 's>) -> bool {
        let Some((limit, now, mode, fits)) = self.of else {
            return false;
        };
        let same = std::ptr::eq(limit, told.limit)
            && (now, mode, fits) == (told.now, told.level.mode, told.outcome.fits);
        same && match &self.debts {
            Some(debts) => told.outcome.cell.owes_within(debts, told.now),
            None => self.resets.contains(&told.reset()),
        }
    }
}

/// Appends a decision, with headers if there are styles for them. Whoever writes several has seen the last.
pub(super) fn write_decision<'s>(
    checked: &Checked<'s>,
    headers: Option<HeaderStyles>,
    mut seen: Option<&mut Seen<'s>>,
    out: &mut Vec<u8>,
) {
    match packed_head(checked) {
        Some(head) => head.write(out),
        None => write_verdict(checked, out),
    }
    let (stack, decision) = (&checked.stack, &checked.decision);
    let limits = stack.limits.iter().zip(&stack.levels);
    for (place, ((limit, level), outcome)) in limits.zip(&decision.outcomes).enumerate() {
        let told = Told {
            limit,
            level,
            outcome,
            now: checked.now,
        };
        let seen = seen.as_mut().and_then(|seen| seen.levels.get_mut(place));
        if !seen.is_some_and(|seen| seen.write_again(&told, out)) {
            write::message(8, out, |out| told.write(out));
        }
    }
    if !decision.allowed {
        write_message(9, &denial(checked), out);
    }
    if let Some(styles) = headers {
        write_headers(checked, styles, &mut |name, value| {
            write::message(10, out, |out| {
                write::text(1, name.as_bytes(), out);
                write::text(2, String::from_utf8_lossy(value).as_bytes(), out);
            });
        });
    }
}

/// What a request that may go on at once is told before its levels, which is little.
#[inline]
fn packed_head(checked: &Checked<'_>) -> Option<Packed> {
    let decision = &checked.decision;
    let at_once = decision.retry == Retry::After(0) && decision.delay == 0 && decision.binding.is_none();
    if !decision.allowed || !at_once || checked.degraded {
        return None;
    }
    let remaining = Packed::some_number(4, decision.remaining?)?;
    let allowed = Packed::some_number(1, 1)?;
    Some(allowed.and(remaining).and(Packed::some_number(5, 0)?))
}

/// What is said before the levels.
#[inline(never)]
fn write_verdict(checked: &Checked<'_>, out: &mut Vec<u8>) {
    let decision = &checked.decision;
    write::number(1, decision.allowed.into(), out);
    if let Some(place) = decision.binding {
        let limit = checked.stack.limits[place];
        write::some_text(2, limit.scope_name.as_bytes(), out);
        write::some_text(3, limit.id.as_bytes(), out);
    }
    if let Some(remaining) = decision.remaining {
        write::some_number(4, remaining, out);
    }
    if let Retry::After(wait) = decision.retry {
        write::some_number(5, millis(wait), out);
    }
    write::number(6, millis(decision.delay), out);
    write::number(7, checked.degraded.into(), out);
}

/// Appends why there is no decision.
pub(super) fn write_problem(problem: Problem, out: &mut Vec<u8>) {
    let problem = ProblemMessage {
        error: problem.error.to_owned(),
        message: problem.detail,
    };
    write_message(11, &problem, out);
}

/// The same as a message.
pub(super) fn decision(checked: &Checked<'_>, headers: Option<HeaderStyles>) -> CheckLimitResponse {
    let mut written = Vec::new();
    write_decision(checked, headers, None, &mut written);
    // What was written here can be read.
    CheckLimitResponse::decode(&*written).unwrap_or_default()
}

fn write_message(field: u8, message: &impl Message, out: &mut Vec<u8>) {
    // There is always room in a `Vec`.
    write::message(field, out, |out| message.encode(out).unwrap_or_default());
}

/// When a level is reset: after how long, and at which instant.
fn write_reset(now: Timestamp, reset: Nanos, out: &mut Vec<u8>) {
    write::number(5, millis(reset), out);
    write::message(6, out, |out| rfc3339(now, reset, out));
}

/// Times to a reset that are the same as this one in milliseconds, and lead to the same millisecond.
fn told_alike(now: Timestamp, reset: Nanos) -> Range<Nanos> {
    let now = Nanos::from(now.nanos());
    let last = |time| millis_up(time).saturating_mul(MILLI);
    let (length, instant) = (last(reset), last(now + reset));
    let first = |last: Nanos| last.saturating_sub(MILLI - 1);
    first(length).max(first(instant).saturating_sub(now))..length.min(instant - now) + 1
}

fn denial(checked: &Checked<'_>) -> Denial {
    let binding = checked.decision.binding.map(|place| checked.stack.limits[place]);
    let levels = checked.stack.levels.iter().zip(&checked.decision.outcomes);
    let violated = levels
        .zip(&checked.stack.limits)
        .filter(|((level, outcome), _)| !outcome.fits && level.mode == Mode::Enforce);
    Denial {
        error: denial_error(checked).0.to_owned(),
        message: denial_message(checked),
        limit_type: binding.map_or("", |limit| limit.limit_type()).to_owned(),
        violated_policies: violated.map(|(_, limit)| limit.id.to_string()).collect(),
        retry_after_seconds: retry_after_seconds(checked)
            .map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX)),
    }
}

fn millis(nanos: Nanos) -> u64 {
    u64::try_from(millis_up(nanos)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::{Algorithm, Cell, Rule};

    use super::*;

    proptest! {
        #[test]
        fn times_that_are_told_alike_are_all_that_are(now in any::<u64>(), reset in 0..5_000_000_u128, other in 0..5_000_000_u128) {
            let now = Timestamp::from_nanos(now);
            let told = |reset: Nanos| {
                let mut out = Vec::new();
                write_reset(now, reset, &mut out);
                out
            };
            let alike = told_alike(now, reset);
            prop_assert!(alike.contains(&reset));
            prop_assert_eq!(alike.contains(&other), told(reset) == told(other));
        }

        #[test]
        fn debts_that_lead_to_the_same_reset_are_all_that_do(
            (limit, window) in (1..5_000_u64, 1..3_000_000_u64),
            (debt, other) in (0..20_000_000_000_u128, 0..20_000_000_000_u128),
            near in any::<bool>(),
        ) {
            let rule = Rule::new(Algorithm::TokenBucket, limit, None, window);
            let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
            let reset = |debt| rule.reset(Cell::owing(debt, now.nanos()), now);
            let resets = told_alike(now, reset(debt));
            let debts = rule.debts_until(&resets).unwrap();
            // Those around the ends make the difference.
            let other = if near { debts.end.saturating_sub(other % 3) } else { other };
            for debt in [debt, other, debts.start, debts.start.saturating_sub(1)] {
                let owes = Cell::owing(debt, now.nanos()).owes_within(&debts, now);
                prop_assert_eq!(owes, resets.contains(&reset(debt)), "{}", debt);
            }
        }
    }
}
