//! Quotas that one caller alone uses up in next to no time.

use tollgate_catalog::model::Scope;
use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Nanos};

use crate::answer::{elapsed, grouped};

/// A plan may well hold its callers to less than they could use: only what is gone so soon is hardly meant.
const SOON_NS: Nanos = 3_600 * 1_000_000_000;

/// The shortest window of a cap that is meant to last.
const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// A rate at which one caller uses up a cap, and after what time.
struct UsedUp<'l> {
    rate: &'l Limit,
    cap: &'l Limit,
    after: Nanos,
}

/// Says of the limits of one tier, or of one request, which cap a single caller would use up first, if that is soon.
pub fn used_up(limits: &[&Limit]) -> Option<String> {
    // Only a cap on all that a rate lets through is sure to be used up, so conditions are left aside.
    let enforced = || {
        let counting = limits
            .iter()
            .filter(|limit| limit.mode == Some(Mode::Enforce) && limit.rule.limit > 0);
        counting.filter(|limit| limit.is_unconditional())
    };
    let caps = || enforced().filter(|limit| limit.is_quota() || limit.rule.window_ns >= DAY_NS);
    let pairs = enforced().flat_map(|rate| caps().filter_map(|cap| UsedUp::of(rate, cap)));
    let soonest = pairs.min_by_key(|pair| pair.after)?;
    Some(soonest.sentence())
}

impl<'l> UsedUp<'l> {
    /// The two, if one caller at the full rate uses up the cap soon.
    fn of(rate: &'l Limit, cap: &'l Limit) -> Option<Self> {
        let narrower = |rate: &Scope, cap: &Scope| cap.breadth() < rate.breadth() && cap.within_org();
        if rate.unit != cap.unit || !narrower(&rate.scope, &cap.scope) {
            return None;
        }
        if cap.rule.window_ns <= rate.rule.window_ns {
            return None;
        }
        // The time in which the rate, used to the full, adds up to the cap.
        let after =
            u128::from(cap.rule.limit) * u128::from(rate.rule.window_ns) / u128::from(rate.rule.limit.max(1));
        (after <= SOON_NS).then_some(Self { rate, cap, after })
    }

    fn sentence(&self) -> String {
        let Self { rate, cap, after } = self;
        format!(
            "one {} at the full rate of {} ({} in {}) uses up {} ({} in {}) after {}",
            rate.scope_name,
            rate.id,
            grouped(rate.rule.limit),
            rate.window,
            cap.id,
            grouped(cap.rule.limit),
            cap.window,
            elapsed(*after)
        )
    }
}
