//! The headers a limited client is told by, in each style.

use tollgate_catalog::model::{Dimension, Window};
use tollgate_core::{Algorithm, Mode, Nanos, Period};

use super::time::{retry_after_seconds, seconds_up};
use crate::engine::Checked;

/// The largest whole number that a structured field can hold.
const MAX_FIELD_INTEGER: u128 = 999_999_999_999_999;

/// Which styles are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of the four can be chosen")]
pub struct HeaderStyles {
    /// `RateLimit-Policy` and `RateLimit`.
    pub ietf: bool,
    /// `X-RateLimit-Limit` and so on, of the limit that binds.
    pub x: bool,
    /// `X-RateLimit-Org-Limit` and so on, of each level.
    pub levels: bool,
    /// `RateLimit-Limit` and so on.
    pub legacy: bool,
}

impl Default for HeaderStyles {
    fn default() -> Self {
        Self {
            ietf: true,
            x: true,
            levels: true,
            legacy: false,
        }
    }
}

impl HeaderStyles {
    /// None of them.
    pub const fn none() -> Self {
        Self {
            ietf: false,
            x: false,
            levels: false,
            legacy: false,
        }
    }
}

impl std::str::FromStr for HeaderStyles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut styles = Self::none();
        for name in text.split(',').map(str::trim) {
            match name {
                "ietf" => styles.ietf = true,
                "x" => styles.x = true,
                "levels" => styles.levels = true,
                "legacy" => styles.legacy = true,
                "off" if text.trim() == "off" => {}
                _ => {
                    return Err(format!(
                        "`{name}` is not one of ietf, x, levels, legacy; or off alone"
                    ));
                }
            }
        }
        Ok(styles)
    }
}

/// Where headers go: their names in lower case, and their values.
pub type Sink<'s> = dyn FnMut(&'static str, &[u8]) + 's;

/// Writes the headers of a decision.
pub fn write_headers(checked: &Checked<'_>, styles: HeaderStyles, headers: &mut Sink<'_>) {
    if styles.ietf {
        write_ietf(checked, headers);
    }
    if styles.x || styles.legacy {
        write_binding(checked, styles, headers);
    }
    if styles.levels {
        write_levels(checked, headers);
    }
    if let Some(binding) = checked.decision.binding {
        headers(
            "x-ratelimit-scope",
            checked.stack.limits[binding].scope_name.as_bytes(),
        );
        if let Some(seconds) = retry_after_seconds(checked) {
            number(headers, "retry-after", seconds);
        }
    }
}

/// The levels that clients may see, by place.
fn visible<'c>(checked: &'c Checked<'_>, soft: bool) -> impl Iterator<Item = usize> + 'c {
    (0..checked.stack.limits.len()).filter(move |place| {
        let mode = checked.stack.levels[*place].mode;
        checked.stack.limits[*place].expose && (mode == Mode::Enforce || (soft && mode == Mode::Soft))
    })
}

fn write_ietf(checked: &Checked<'_>, headers: &mut Sink<'_>) {
    let mut policies = String::with_capacity(160);
    let mut states = String::with_capacity(128);
    for place in visible(checked, false) {
        let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
        let outcome = &checked.decision.outcomes[place];
        let separator = if policies.is_empty() { "" } else { ", " };
        let mut digits = itoa::Buffer::new();
        for part in [
            separator,
            "\"",
            &limit.id,
            "\";q=",
            digits.format(limit.rule.limit),
        ] {
            policies.push_str(part);
        }
        if let Some(window) = window_seconds(checked, place) {
            policies.push_str(";w=");
            policies.push_str(digits.format(window));
        }
        for part in [
            separator,
            "\"",
            &limit.id,
            "\";r=",
            digits.format(outcome.remaining),
        ] {
            states.push_str(part);
        }
        if let Some(wait) = outcome.advice(level, checked.now) {
            states.push_str(";t=");
            states.push_str(digits.format(seconds_up(wait).min(MAX_FIELD_INTEGER)));
        }
    }
    if policies.is_empty() {
        return;
    }
    headers("ratelimit-policy", policies.as_bytes());
    headers("ratelimit", states.as_bytes());
}

/// The window in whole seconds; left out under one.
fn window_seconds(checked: &Checked<'_>, place: usize) -> Option<u64> {
    let level = &checked.stack.levels[place];
    let nanos = match level.rule.algorithm {
        Algorithm::Quota(period) => {
            let (start, end) = level.calendar.period(period, checked.now);
            end.nanos() - start.nanos()
        }
        _ => level.rule.window_ns,
    };
    (nanos >= 1_000_000_000).then(|| nanos.div_ceil(1_000_000_000))
}

/// The limit that binds, else the visible one with the least left: of those that can refuse, if there are any.
fn write_binding(checked: &Checked<'_>, styles: HeaderStyles, headers: &mut Sink<'_>) {
    let visible_binding = checked
        .decision
        .binding
        .filter(|place| checked.stack.limits[*place].expose);
    let least = |soft| visible(checked, soft).min_by_key(|place| checked.decision.outcomes[*place].remaining);
    let shown = visible_binding.or_else(|| least(false)).or_else(|| least(true));
    let Some(place) = shown else {
        return;
    };
    let limit = checked.stack.limits[place].rule.limit.into();
    let outcome = &checked.decision.outcomes[place];
    let remaining = outcome.remaining.into();
    if styles.x {
        number(headers, "x-ratelimit-limit", limit);
        number(headers, "x-ratelimit-remaining", remaining);
        number(headers, "x-ratelimit-reset", reset_at(checked, place));
    }
    if styles.legacy {
        number(headers, "ratelimit-limit", limit);
        number(headers, "ratelimit-remaining", remaining);
        let reset = outcome.reset(&checked.stack.levels[place], checked.now);
        number(headers, "ratelimit-reset", seconds_up(reset));
    }
}

/// The names of each level's headers, in the order of [`level_of`].
const LEVELS: [(&str, &str); 9] = [
    ("x-ratelimit-global-limit", "x-ratelimit-global-remaining"),
    ("x-ratelimit-endpoint-limit", "x-ratelimit-endpoint-remaining"),
    ("x-ratelimit-ip-limit", "x-ratelimit-ip-remaining"),
    ("x-ratelimit-org-limit", "x-ratelimit-org-remaining"),
    ("x-ratelimit-app-limit", "x-ratelimit-app-remaining"),
    ("x-ratelimit-key-limit", "x-ratelimit-key-remaining"),
    ("x-ratelimit-user-limit", "x-ratelimit-user-remaining"),
    ("x-ratelimit-org-daily-limit", "x-ratelimit-org-daily-remaining"),
    (
        "x-ratelimit-org-monthly-limit",
        "x-ratelimit-org-monthly-remaining",
    ),
];
const ORG: usize = 3;
const ORG_DAILY: usize = 7;
const ORG_MONTHLY: usize = 8;

fn level_of(dimension: &Dimension) -> Option<usize> {
    match dimension {
        Dimension::Global => Some(0),
        Dimension::Endpoint => Some(1),
        Dimension::Ip => Some(2),
        Dimension::Org => Some(ORG),
        Dimension::App => Some(4),
        Dimension::Key => Some(5),
        Dimension::User => Some(6),
        Dimension::Descriptor(_) => None,
    }
}

/// Per level the limit with the least left, and of an org's quotas each kind's.
fn write_levels(checked: &Checked<'_>, headers: &mut Sink<'_>) {
    let mut levels = [None; LEVELS.len()];
    let mut quota = None;
    let left = |place: usize| checked.decision.outcomes[place].remaining;
    let tighten = |least: &mut Option<usize>, place: usize| {
        if least.is_none_or(|known| left(place) < left(known)) {
            *least = Some(place);
        }
    };
    for place in visible(checked, true) {
        let limit = checked.stack.limits[place];
        let Some(level) = limit.scope.single().and_then(level_of) else {
            continue;
        };
        tighten(&mut levels[level], place);
        if let (ORG, Window::Calendar(period)) = (level, &limit.window) {
            tighten(&mut quota, place);
            match period {
                Period::Day => tighten(&mut levels[ORG_DAILY], place),
                Period::Month | Period::BillingMonth => tighten(&mut levels[ORG_MONTHLY], place),
                Period::Week => {}
            }
        }
    }
    for ((limit, remaining), place) in LEVELS.into_iter().zip(levels) {
        if let Some(place) = place {
            number(headers, limit, checked.stack.limits[place].rule.limit.into());
            number(headers, remaining, left(place).into());
        }
    }
    if let Some(place) = quota {
        number(headers, "x-ratelimit-org-reset", reset_at(checked, place));
    }
}

/// When a level resets, in Unix seconds, rounded up.
fn reset_at(checked: &Checked<'_>, place: usize) -> u128 {
    let reset = checked.decision.outcomes[place].reset(&checked.stack.levels[place], checked.now);
    seconds_up(Nanos::from(checked.now.nanos()) + reset)
}

fn number(headers: &mut Sink<'_>, name: &'static str, number: u128) {
    let mut digits = itoa::Buffer::new();
    match u64::try_from(number) {
        Ok(number) => headers(name, digits.format(number).as_bytes()),
        Err(_) => headers(name, digits.format(number).as_bytes()),
    }
}
