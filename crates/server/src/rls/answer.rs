//! From a decision to a status for each descriptor, and what a refused client is told.

use tollgate_catalog::model::Window;
use tollgate_core::{Mode, Nanos, Period, Rule};

use super::asked::Asked;
use super::question::{Decided, Kind, Question};
use super::{UNITS, pb};
use crate::answer::{HeaderStyles, Problem, seconds_up, write_denial, write_headers, write_problem};
use crate::data_plane::DataPlane;
use crate::engine::{Checked, Together};

impl Question<'_> {
    /// The answer.
    pub(crate) fn answer(&self, decided: &Decided<'_>, plane: &DataPlane) -> pb::RateLimitResponse {
        let checked = &decided.taken.checked;
        let allowed = checked.decision.allowed;
        let mut response = pb::RateLimitResponse {
            overall_code: if allowed {
                pb::Code::Ok
            } else {
                pb::Code::OverLimit
            }
            .into(),
            ..pb::RateLimitResponse::default()
        };
        let mut taken = (0..).map(|part| status(&decided.taken, part));
        let mut given = decided.given.iter().map(|given| match given {
            Some(given) => status(given, 0),
            None => ok(0),
        });
        let statuses = self.kinds.iter().filter_map(|kind| match kind {
            Kind::Takes => taken.next(),
            Kind::Gives => given.next(),
        });
        response.statuses = statuses.collect();
        if plane.rls_headers || !allowed {
            tell(checked, plane, &mut response);
        }
        response
    }
}

/// The answer to a question of which one descriptor has a value that can't be: it is refused, and nothing is charged.
pub(crate) fn refusal(asked: &Asked<'_>, wrong: usize, problem: &Problem) -> pb::RateLimitResponse {
    let mut response = pb::RateLimitResponse {
        overall_code: pb::Code::OverLimit.into(),
        statuses: vec![ok(0); asked.descriptors.len()],
        ..pb::RateLimitResponse::default()
    };
    if let Some(status) = response.statuses.get_mut(wrong) {
        status.code = pb::Code::OverLimit.into();
    }
    response.response_headers_to_add.push(pb::HeaderValue {
        key: "content-type".to_owned(),
        value: "application/problem+json".to_owned(),
        ..pb::HeaderValue::default()
    });
    write_problem(problem, &mut response.raw_body);
    response
}

/// What is said of a descriptor that no limit is shown for.
fn ok(remaining: u32) -> pb::DescriptorStatus {
    pb::DescriptorStatus {
        code: pb::Code::Ok.into(),
        limit_remaining: remaining,
        ..pb::DescriptorStatus::default()
    }
}

/// What is said of one that takes: of the limits it meets, the one that refuses, or else the one with the least left.
fn status(together: &Together<'_>, part: usize) -> pb::DescriptorStatus {
    let Checked {
        stack, decision, now, ..
    } = &together.checked;
    if together.unlimited[part] {
        return ok(u32::MAX);
    }
    let is_over =
        |place: usize| !decision.outcomes[place].fits && stack.limits[place].mode == Some(Mode::Enforce);
    let wait = |place: usize| decision.outcomes[place].wait(&stack.levels[place], *now);
    let places = || together.places[part].iter().copied();
    // Of several that refuse, the one that keeps out the longest; waiting never helps with none.
    let over = places()
        .filter(|place| is_over(*place))
        .max_by_key(|place| wait(*place).unwrap_or(Nanos::MAX));
    let shown = over.or_else(|| {
        places().min_by_key(|place| {
            let limit = stack.limits[*place];
            let enforced = limit.mode == Some(Mode::Enforce);
            (!limit.expose, !enforced, decision.outcomes[*place].remaining)
        })
    });
    let Some(place) = shown else {
        return ok(0);
    };
    let (limit, outcome) = (stack.limits[place], &decision.outcomes[place]);
    let reset = seconds_up(outcome.reset(&stack.levels[place], *now));
    pb::DescriptorStatus {
        code: if over.is_some() {
            pb::Code::OverLimit
        } else {
            pb::Code::Ok
        }
        .into(),
        current_limit: Some(pb::RateLimit {
            name: limit.id.to_string(),
            requests_per_unit: clamped(limit.rule.limit),
            unit: unit(limit.window, &limit.rule).into(),
        }),
        limit_remaining: clamped(outcome.remaining),
        duration_until_reset: Some(pb::Duration {
            seconds: i64::try_from(reset).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        ..pb::DescriptorStatus::default()
    }
}

/// What of a number the message can hold. Headers have it whole.
fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn unit(window: Window, rule: &Rule) -> pb::Unit {
    match window {
        Window::Calendar(Period::Day) => pb::Unit::Day,
        Window::Calendar(Period::Week) => pb::Unit::Week,
        Window::Calendar(Period::Month | Period::BillingMonth) => pb::Unit::Month,
        Window::Length(_) => {
            let known = UNITS.iter().find(|(_, length)| *length == rule.window_ns);
            known.map_or(pb::Unit::Unknown, |(unit, _)| *unit)
        }
    }
}

/// Adds the headers that are for the client, and to a refusal its body.
fn tell(checked: &Checked<'_>, plane: &DataPlane, response: &mut pb::RateLimitResponse) {
    let styles = if plane.rls_headers {
        plane.styles
    } else {
        HeaderStyles::none()
    };
    let mut add = |key: &str, value: &[u8]| {
        response.response_headers_to_add.push(pb::HeaderValue {
            key: key.to_owned(),
            value: String::from_utf8_lossy(value).into_owned(),
            ..pb::HeaderValue::default()
        });
    };
    write_headers(checked, styles, &mut add);
    if !checked.decision.allowed {
        add("content-type", b"application/problem+json");
        write_denial(checked, &mut response.raw_body);
    }
}
