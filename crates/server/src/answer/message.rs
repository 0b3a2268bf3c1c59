//! The sentence that tells a person why a request was refused.

use std::fmt::Write;

use tollgate_catalog::model::{Dimension, Window};
use tollgate_core::{Nanos, Period, Retry, Timestamp};

use crate::engine::Checked;

/// Why a refused request was refused, and when to come back, in the org's own time.
pub fn denial_message(checked: &Checked<'_>) -> String {
    let Some(place) = checked.decision.binding else {
        return String::new();
    };
    let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
    let whose = whose(limit.scope.dimensions());
    let what = match limit.window {
        Window::Calendar(Period::Day) => "daily quota".to_owned(),
        Window::Calendar(Period::Week) => "weekly quota".to_owned(),
        Window::Calendar(_) => "monthly quota".to_owned(),
        Window::Length(_) => format!("limit of {} in {}", grouped(limit.rule.limit), limit.window),
    };
    let on = match &limit.pattern {
        pattern if pattern.is_any() => String::new(),
        pattern => format!(" on {pattern}"),
    };
    let mut message = String::new();
    match checked.decision.retry {
        Retry::Never if limit.rule.limit == 0 => {
            let _ = write!(
                message,
                "Requests for this {whose}{on} are not allowed (policy {}).",
                limit.id
            );
        }
        Retry::Never => {
            let _ = write!(
                message,
                "The request costs {}, more than the {} that this {whose}'s {what}{on} can ever hold (policy {}).",
                grouped(level.cost),
                grouped(limit.rule.capacity),
                limit.id
            );
        }
        Retry::After(wait) => {
            let used = match limit.window {
                Window::Calendar(_) => format!("{what} of {}", grouped(limit.rule.limit)),
                Window::Length(_) => what,
            };
            let _ = match checked.decision.outcomes[place].remaining {
                0 => write!(message, "This {whose} has used up its {used}{on}"),
                left => write!(
                    message,
                    "This {whose} has only {} left of its {used}{on}, and the request costs {}",
                    grouped(left),
                    grouped(level.cost)
                ),
            };
            let _ = write!(message, " (policy {}). Try again in {}", limit.id, duration(wait));
            if limit.is_quota() {
                // Where quotas and the rest are decided apart the wait was reckoned an instant earlier or later than `now`.
                let own = checked.decision.outcomes[place].wait(level, checked.now);
                let wait = own.filter(|own| *own > 0).unwrap_or(wait);
                let at = whole_second(checked.now.saturating_add(wait));
                let at = tollgate_core::calendar::to_jiff(at).to_zoned(checked.stack.zone.clone());
                let _ = write!(message, ", at {}", at.strftime("%Y-%m-%d %H:%M:%S %Z"));
            }
            message.push('.');
        }
    }
    message
}

/// An instant as it is told to the second: rounded up, so that nobody comes too early.
fn whole_second(at: Timestamp) -> Timestamp {
    let seconds = u64::try_from(super::time::seconds_up(at.nanos().into())).unwrap_or(u64::MAX);
    Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000))
}

fn whose(dimensions: &[Dimension]) -> String {
    let names = dimensions.iter().map(|dimension| match dimension {
        Dimension::Global => "service".to_owned(),
        Dimension::Endpoint => "endpoint".to_owned(),
        Dimension::Ip => "address".to_owned(),
        Dimension::Org => "organization".to_owned(),
        Dimension::App => "app".to_owned(),
        Dimension::Key => "API key".to_owned(),
        Dimension::User => "user".to_owned(),
        Dimension::Descriptor(name) => name.clone(),
    });
    names.collect::<Vec<_>>().join(" and ")
}

/// A number with its thousands set apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A length of time in its two largest units, rounded up: who waits so long does not come too early.
pub fn duration(length: Nanos) -> String {
    let millis = super::time::millis_up(length);
    if millis < 1000 {
        return format!("{millis} ms");
    }
    let seconds = super::time::seconds_up(length);
    let least = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    let parts = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds.next_multiple_of(least);
    let mut shown = Vec::new();
    for (size, unit) in parts {
        if rest >= size && shown.len() < 2 {
            shown.push(format!("{} {unit}", rest / size));
        } else if !shown.is_empty() {
            break;
        }
        rest %= size;
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_come_too_early() {
        let told = |nanos| whole_second(Timestamp::from_nanos(nanos)).nanos();
        assert_eq!(told(4_000_000_000), 4_000_000_000);
        assert_eq!(told(4_000_000_001), 5_000_000_000);
        assert_eq!(told(4_999_999_999), 5_000_000_000);
    }

    #[test]
    fn shows_numbers_and_lengths_as_people_read_them() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(57_600_000), "57,600,000");
        assert_eq!(duration(1), "1 ms");
        assert_eq!(duration(500_000_000_000), "8 min 20 s");
        assert_eq!(duration(86_400_000_000_000), "1 d");
        assert_eq!(duration(3_599_000_000_001), "1 h");
        assert_eq!(duration(3_600_000_000_001), "1 h 1 min");
        assert_eq!(duration(25_749_939_000_000), "7 h 10 min");
        assert_eq!(duration(86_399_000_000_001), "1 d");
        assert_eq!(duration(86_400_000_000_001), "1 d 1 h");
    }
}
