//! A steady workload against a tier's limits.

use tollgate_catalog::model::Dimension;
use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Nanos};

use super::flow::Flow;
use super::lasting::{Load, most_of};

/// Who calls, how often and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) apps: u64,
    pub(super) keys: u64,
    pub(super) rate: Option<u64>,
    pub(super) hours: u64,
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
    /// The limit the workload needs; `None` if none would do.
    pub(super) needed: Option<u64>,
    /// The largest limit that the policy may have.
    pub(super) most: u64,
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
            counted.filter(|limit| limit.is_unconditional())
        };
        let sustained = |limit: &Limit| Flow::new(limit.rule.limit.into(), limit.rule.window_ns.into());
        // Left to themselves, apps call as often as their own limits admit.
        let own = |dimension: Dimension| {
            let narrow =
                limits().filter(|limit| limit.scope.single() == Some(&dimension) && !limit.is_quota());
            narrow.map(|limit| sustained(limit)).reduce(Flow::min)
        };
        let of_keys = own(Dimension::Key).map(|flow| flow.times(workload.keys));
        let of_app = own(Dimension::App).into_iter().chain(of_keys).reduce(Flow::min);
        let per_app = match workload.rate {
            Some(rate) => Flow::per_second(rate),
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
    let load = Load::new(offered, hours);
    Line {
        policy: limit.id.to_string(),
        scope: limit.scope_name.to_string(),
        limit: limit.rule.limit,
        window: limit.window.to_string(),
        offered,
        runs_out: load.runs_out(limit),
        needed: load.needs(limit),
        most: most_of(limit),
    }
}
