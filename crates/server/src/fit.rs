//! Whether the numbers of a stack fit together: a rate that uses up a cap before its period ends.

use tollgate_catalog::model::Dimension;
use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Nanos};

use crate::answer::{elapsed, grouped};

/// A limit that, used to the full, exhausts a broader one before its window ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The narrower limit, by its policy's id.
    pub rate: String,
    /// The cap it exhausts.
    pub cap: String,
    /// After this time.
    pub after: Nanos,
    /// How many callers use the rate at once.
    pub callers: u64,
    sentence: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// The misfits among limits that apply together, with so many apps at work in the org.
pub fn misfits(limits: &[&Limit], apps: u64) -> Vec<Misfit> {
    // Only a cap on all that a rate lets through is sure to run out, so conditions are left aside.
    let enforced = || {
        let counting = limits
            .iter()
            .filter(|limit| limit.mode == Some(Mode::Enforce) && limit.rule.limit > 0);
        counting.filter(|limit| limit.is_unconditional())
    };
    let mut found = Vec::new();
    for rate in enforced() {
        for cap in enforced() {
            let same_unit = rate.unit == cap.unit;
            let broader = cap.scope.breadth() < rate.scope.breadth() && cap.scope.within_org();
            if !same_unit || !broader || cap.rule.window_ns <= rate.rule.window_ns {
                continue;
            }
            let callers = if rate.scope.single() == Some(&Dimension::App) {
                apps
            } else {
                1
            };
            // The time in which the rate, used to the full, adds up to the cap.
            let flow = u128::from(rate.rule.limit) * u128::from(callers);
            let after = u128::from(cap.rule.limit) * u128::from(rate.rule.window_ns) / flow;
            if after >= u128::from(cap.rule.window_ns) {
                continue;
            }
            found.push(Misfit {
                rate: rate.id.to_string(),
                cap: cap.id.to_string(),
                after,
                callers,
                sentence: sentence(rate, cap, callers, after),
            });
        }
    }
    found
}

fn sentence(rate: &Limit, cap: &Limit, callers: u64, after: Nanos) -> String {
    let who = if callers == 1 {
        format!("one {}", rate.scope_name)
    } else {
        format!("{callers} {}s", rate.scope_name)
    };
    format!(
        "{who} at the full rate of {} ({} in {}) uses up {} ({} in {}) after {}",
        rate.id,
        grouped(rate.rule.limit),
        rate.window,
        cap.id,
        grouped(cap.rule.limit),
        cap.window,
        elapsed(after)
    )
}
