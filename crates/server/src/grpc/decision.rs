//! A decision as a `tollgate.v1.CheckLimitResponse`: as a message for whoever is asked without a connection, or written
//! straight to where it is sent from.

use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Nanos, Retry, Timestamp};
use tollgate_proto::Message;
use tollgate_proto::v1::{CheckLimitResponse, Denial, Problem as ProblemMessage};

use crate::answer::{
    HeaderStyles, Problem, denial_error, denial_message, millis_up, mode_name, retry_after_seconds, rfc3339,
    write_headers,
};
use crate::engine::Checked;
use crate::wire::write;

/// What was just written of the first levels of a stack: in a batch most of it is the same again.
#[derive(Default)]
pub(super) struct Seen<'s> {
    levels: [SeenLevel<'s>; 4],
}

#[derive(Default)]
struct SeenLevel<'s> {
    limit: Option<&'s Limit>,
    /// What does not change of it.
    fixed: Vec<u8>,
    /// When it was to be reset, in Unix milliseconds, and how that is written.
    at_ms: u64,
    reset_at: Vec<u8>,
}

impl<'s> SeenLevel<'s> {
    fn write_limit(&mut self, limit: &'s Limit, out: &mut Vec<u8>) {
        if !self.limit.is_some_and(|seen| std::ptr::eq(seen, limit)) {
            self.limit = Some(limit);
            self.fixed.clear();
            write::text(1, limit.id.as_bytes(), &mut self.fixed);
            write::text(2, limit.scope_name.as_bytes(), &mut self.fixed);
            write::number(3, limit.rule.limit, &mut self.fixed);
        }
        out.extend_from_slice(&self.fixed);
    }

    fn write_reset_at(&mut self, now: Timestamp, reset: Nanos, out: &mut Vec<u8>) {
        let at_ms = millis(Nanos::from(now.nanos()) + reset);
        if self.reset_at.is_empty() || self.at_ms != at_ms {
            self.at_ms = at_ms;
            self.reset_at.clear();
            write::message(6, &mut self.reset_at, |out| rfc3339(now, reset, out));
        }
        out.extend_from_slice(&self.reset_at);
    }
}

/// Appends a decision, with headers if there are styles for them.
pub(super) fn write_decision<'s>(
    checked: &Checked<'s>,
    headers: Option<HeaderStyles>,
    seen: &mut Seen<'s>,
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
        match seen.levels.get_mut(place) {
            Some(seen) => write_level(checked, place, seen, out),
            None => write_level(checked, place, &mut SeenLevel::default(), out),
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
    write_decision(checked, headers, &mut Seen::default(), &mut written);
    // What was written here can be read.
    CheckLimitResponse::decode(&*written).unwrap_or_default()
}

fn write_message(field: u8, message: &impl Message, out: &mut Vec<u8>) {
    // There is always room in a `Vec`.
    write::message(field, out, |out| message.encode(out).unwrap_or_default());
}

fn write_level<'s>(checked: &Checked<'s>, place: usize, seen: &mut SeenLevel<'s>, out: &mut Vec<u8>) {
    let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
    let outcome = &checked.decision.outcomes[place];
    let reset = outcome.reset(level, checked.now);
    write::message(8, out, |out| {
        seen.write_limit(limit, out);
        write::number(4, outcome.remaining, out);
        write::number(5, millis(reset), out);
        seen.write_reset_at(checked.now, reset, out);
        write::text(7, mode_name(level.mode).as_bytes(), out);
        write::number(8, (!outcome.fits).into(), out);
    });
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
