//! The decision as JSON. Written by hand into one buffer: it is made for every request.

use tollgate_core::{Mode, Nanos, Retry};

use super::time::{millis_up, rfc3339};
use crate::engine::Checked;

/// Appends the members of a decision, without the braces around them.
pub fn write_decision(checked: &Checked<'_>, out: &mut Vec<u8>) {
    let decision = &checked.decision;
    let binding = decision.binding.map(|place| checked.stack.limits[place]);
    push(out, b"\"allowed\":");
    flag(out, decision.allowed);
    push(out, b",\"scope\":");
    optional_name(out, binding.map(|limit| &*limit.scope_name));
    push(out, b",\"policyId\":");
    optional_name(out, binding.map(|limit| &*limit.id));
    push(out, b",\"remaining\":");
    match decision.remaining {
        Some(remaining) => number(out, remaining),
        None => push(out, b"null"),
    }
    push(out, b",\"retryAfterMs\":");
    match decision.retry {
        Retry::After(wait) => millis(out, wait),
        Retry::Never => push(out, b"null"),
    }
    push(out, b",\"delayMs\":");
    millis(out, decision.delay);
    push(out, b",\"degraded\":");
    flag(out, checked.degraded);
    push(out, b",\"limits\":[");
    for (place, outcome) in decision.outcomes.iter().enumerate() {
        let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
        if place > 0 {
            push(out, b",");
        }
        push(out, b"{\"policyId\":\"");
        // An id is plain by its grammar.
        push(out, limit.id.as_bytes());
        push(out, b"\",\"scope\":");
        name(out, &limit.scope_name);
        push(out, b",\"limit\":");
        number(out, limit.rule.limit);
        push(out, b",\"remaining\":");
        number(out, outcome.remaining);
        push(out, b",\"resetMs\":");
        let reset = outcome.reset(level, checked.now);
        millis(out, reset);
        push(out, b",\"resetAt\":\"");
        rfc3339(checked.now, reset, out);
        match level.mode {
            Mode::Enforce => push(out, b"\",\"mode\":\"enforce\",\"violated\":"),
            Mode::Shadow => push(out, b"\",\"mode\":\"shadow\",\"violated\":"),
            Mode::Soft => push(out, b"\",\"mode\":\"soft\",\"violated\":"),
        }
        flag(out, !outcome.fits);
        push(out, b"}");
    }
    push(out, b"]");
}

/// A mode's name.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Soft => "soft",
    }
}

#[inline]
fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

fn flag(out: &mut Vec<u8>, flag: bool) {
    if flag {
        push(out, b"true");
    } else {
        push(out, b"false");
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    push(out, itoa::Buffer::new().format(number).as_bytes());
}

fn millis(out: &mut Vec<u8>, length: Nanos) {
    match u64::try_from(length) {
        Ok(length) => number(out, length.div_ceil(1_000_000)),
        Err(_) => push(out, itoa::Buffer::new().format(millis_up(length)).as_bytes()),
    }
}

fn optional_name(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => name(out, text),
        None => push(out, b"null"),
    }
}

/// A scope can carry a descriptor's name that needs escapes.
fn name(out: &mut Vec<u8>, text: &str) {
    if text
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        out.push(b'"');
        push(out, text.as_bytes());
        out.push(b'"');
    } else {
        super::problem::write_text(out, text);
    }
}
