//! A decision as a `tollgate.v1.CheckLimitResponse`: as a message for whoever is asked without a connection, or written
//! straight to where it is sent from.

use std::ops::Range;

use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Nanos, Retry, Timestamp};
use tollgate_proto::Message;
use tollgate_proto::v1::{CheckLimitResponse, Denial, Problem as ProblemMessage};

use crate::answer::{
    HeaderStyles, Problem, denial_error, denial_message, millis_up, mode_name, retry_after_seconds, rfc3339,
    write_headers,
};
use crate::engine::Checked;
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
    limit: Option<&'s Limit>,
    head: Kept,
    /// What the tail says, and for which times to a reset it says so.
    told: Option<(Timestamp, Mode, bool)>,
    resets: Range<Nanos>,
    tail: Kept,
}

/// Appends a decision, with headers if there are styles for them. Whoever writes several has seen the last.
pub(super) fn write_decision<'s>(
    checked: &Checked<'s>,
    headers: Option<HeaderStyles>,
    mut seen: Option<&mut Seen<'s>>,
    out: &mut Vec<u8>,
) {
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
    for place in 0..decision.outcomes.len() {
        let seen = seen.as_mut().and_then(|seen| seen.levels.get_mut(place));
        if !seen.is_some_and(|seen| write_level_again(checked, place, seen, out)) {
            write::message(8, out, |out| write_level(checked, place, out));
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

fn write_level(checked: &Checked<'_>, place: usize, out: &mut Vec<u8>) {
    let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
    let outcome = &checked.decision.outcomes[place];
    write_head(limit, out);
    write::number(4, outcome.remaining, out);
    let told = (checked.now, level.mode, outcome.fits);
    write_tail(told, outcome.reset(level, checked.now), out);
}

/// Appends a level, of which most was said before. Not so if it is longer than what is remembered.
#[inline]
fn write_level_again<'s>(
    checked: &Checked<'s>,
    place: usize,
    seen: &mut SeenLevel<'s>,
    out: &mut Vec<u8>,
) -> bool {
    let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
    let outcome = &checked.decision.outcomes[place];
    let reset = outcome.reset(level, checked.now);
    let told = (checked.now, level.mode, outcome.fits);
    if !seen.limit.is_some_and(|seen| std::ptr::eq(seen, limit)) {
        seen.limit = Some(limit);
        seen.head.renew(|out| write_head(limit, out));
    }
    if seen.told != Some(told) || !seen.resets.contains(&reset) {
        seen.told = Some(told);
        seen.resets = told_alike(checked.now, reset);
        seen.tail.renew(|out| write_tail(told, reset, out));
    }
    let remaining = write::packed(4, outcome.remaining);
    remaining.is_some_and(|remaining| seen.head.write_with(8, remaining, &seen.tail, out))
}

/// The fields of a level before what remains.
fn write_head(limit: &Limit, out: &mut Vec<u8>) {
    write::text(1, limit.id.as_bytes(), out);
    write::text(2, limit.scope_name.as_bytes(), out);
    write::number(3, limit.rule.limit, out);
}

/// The fields of a level after what remains.
fn write_tail((now, mode, fits): (Timestamp, Mode, bool), reset: Nanos, out: &mut Vec<u8>) {
    write::number(5, millis(reset), out);
    write::message(6, out, |out| rfc3339(now, reset, out));
    write::text(7, mode_name(mode).as_bytes(), out);
    write::number(8, (!fits).into(), out);
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

    use super::*;

    proptest! {
        #[test]
        fn times_that_are_told_alike_are_all_that_are(now in any::<u64>(), reset in 0..5_000_000_u128, other in 0..5_000_000_u128) {
            let now = Timestamp::from_nanos(now);
            let told = |reset: Nanos| {
                let mut out = Vec::new();
                write_tail((now, Mode::Enforce, true), reset, &mut out);
                out
            };
            let alike = told_alike(now, reset);
            prop_assert!(alike.contains(&reset));
            prop_assert_eq!(alike.contains(&other), told(reset) == told(other));
        }
    }
}
