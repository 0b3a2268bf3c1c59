//! A steady workload against a tier's limits.

use tollgate_catalog::model::{Dimension, Window};
use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Algorithm, Mode, Nanos, Period};

const SECOND: u128 = 1_000_000_000;

/// Who calls, how often and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) apps: u64,
    pub(super) keys: u64,
    pub(super) rate: Option<u64>,
    pub(super) hours: u64,
}

/// Requests in a time, as a fraction: exact, and a number only when it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    requests: u128,
    nanos: u128,
}

impl Flow {
    fn per_second(requests: u128) -> Self {
        Self {
            requests,
            nanos: SECOND,
        }
    }

    fn times(self, factor: u64) -> Self {
        Self {
            requests: self.requests * u128::from(factor),
            nanos: self.nanos,
        }
    }

    fn over(self, parts: u64) -> Self {
        Self {
            requests: self.requests,
            nanos: self.nanos * u128::from(parts),
        }
    }

    fn min(self, other: Self) -> Self {
        if other.requests * self.nanos < self.requests * other.nanos {
            other
        } else {
            self
        }
    }

    /// Requests in a length of time, rounded up.
    fn in_nanos(self, length: u128) -> u128 {
        (self.requests * length).div_ceil(self.nanos)
    }

    /// The time in which so many requests come.
    fn time_for(self, requests: u128) -> Nanos {
        requests * self.nanos / self.requests.max(1)
    }

    /// Requests a second as a JSON number.
    #[expect(clippy::cast_precision_loss, reason = "JSON's numbers are floats")]
    pub(super) fn number(self) -> f64 {
        self.requests as f64 * SECOND as f64 / self.nanos as f64
    }

    /// Requests a second, with as many decimals as it takes, up to three.
    pub(super) fn shown(self) -> String {
        let thousandths = self.requests * SECOND * 1000 / self.nanos;
        let whole = crate::answer::grouped(u64::try_from(thousandths / 1000).unwrap_or(u64::MAX));
        match thousandths % 1000 {
            0 => whole,
            part => format!("{whole}.{part:03}").trim_end_matches('0').to_owned(),
        }
    }
}

/// What becomes of one limit.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) policy: String,
    pub(super) scope: String,
    pub(super) limit: u64,
    pub(super) window: String,
    pub(super) offered: Flow,
    /// When it first refuses; `None` if never.
    pub(super) runs_out: Option<Nanos>,
    /// The limit the workload needs.
    pub(super) needed: Option<u64>,
}

/// What becomes of all.
#[derive(Debug)]
pub(super) struct Forecast {
    pub(super) per_app: Flow,
    pub(super) total: Flow,
    pub(super) lines: Vec<Line>,
}

impl Forecast {
    pub(super) fn of(limits: &[&Limit], workload: Workload) -> Self {
        let limits = || {
            let counted = limits
                .iter()
                .filter(|limit| limit.mode == Some(Mode::Enforce) && limit.unit.is_none());
            counted.filter(|limit| limit.pattern.is_any())
        };
        let sustained = |limit: &Limit| Flow {
            requests: limit.rule.limit.into(),
            nanos: limit.rule.window_ns.into(),
        };
        // Left to themselves, apps call as often as their own limits admit.
        let own = |dimension: Dimension| {
            let narrow =
                limits().filter(|limit| limit.scope.single() == Some(&dimension) && !limit.is_quota());
            narrow.map(|limit| sustained(limit)).reduce(Flow::min)
        };
        let of_keys = own(Dimension::Key).map(|flow| flow.times(workload.keys));
        let of_app = own(Dimension::App).into_iter().chain(of_keys).reduce(Flow::min);
        let per_app = match workload.rate {
            Some(rate) => Flow::per_second(rate.into()),
            None => of_app.unwrap_or(Flow::per_second(1)),
        };
        let total = per_app.times(workload.apps);
        let lines = limits().filter_map(|limit| {
            let offered = match limit.scope.single()? {
                Dimension::App => per_app,
                Dimension::Key => per_app.over(workload.keys),
                Dimension::Org | Dimension::Global | Dimension::Endpoint => total,
                _ => return None,
            };
            Some(line(limit, offered, workload.hours))
        });
        let lines = lines.collect();
        Self {
            per_app,
            total,
            lines,
        }
    }

    /// The limit that refuses first.
    pub(super) fn first(&self) -> Option<&Line> {
        self.lines
            .iter()
            .filter(|line| line.runs_out.is_some())
            .min_by_key(|line| line.runs_out)
    }
}

fn line(limit: &Limit, offered: Flow, hours: u64) -> Line {
    let rule = &limit.rule;
    let needed = u64::try_from(needed(limit, offered, hours)).ok();
    let runs_out = if rule.limit == 0 {
        Some(0)
    } else if needed.is_some_and(|needed| needed <= rule.limit) {
        None
    } else {
        Some(match rule.algorithm {
            // A bucket lasts until what comes in beyond its refill has used up its burst.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let window = u128::from(rule.window_ns);
                let surplus = offered.in_nanos(window).saturating_sub(rule.limit.into()).max(1);
                u128::from(rule.capacity) * window / surplus
            }
            _ => offered.time_for(rule.limit.into()),
        })
    };
    Line {
        policy: limit.id.to_string(),
        scope: limit.scope_name.to_string(),
        limit: rule.limit,
        window: limit.window.to_string(),
        offered,
        runs_out,
        needed,
    }
}

/// What the workload uses in a window: of a day only the hours it lasts.
fn needed(limit: &Limit, offered: Flow, hours: u64) -> u128 {
    let day = 86_400 * SECOND;
    let daily = offered.in_nanos(u128::from(hours) * 3_600 * SECOND);
    match limit.window {
        Window::Calendar(Period::Day) => daily,
        Window::Calendar(Period::Week) => daily * 7,
        Window::Calendar(_) => daily * 31,
        Window::Length(length) if u128::from(length) >= day => daily * u128::from(length).div_ceil(day),
        Window::Length(length) => {
            offered.in_nanos(u128::from(length).min(u128::from(hours) * 3_600 * SECOND))
        }
    }
}
