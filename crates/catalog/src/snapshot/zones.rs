//! Quotas that share a count end it at the same midnight: else whichever zone comes first would begin it anew for all
//! of them, and more would get through than any of their limits allows.

use std::collections::HashMap;

use tollgate_core::{IdHash, Period};

use super::common::Common;
use super::limit::Limit;
use crate::document::Problems;
use crate::model::{Who, Window, Zone};

impl Common {
    /// Notes policies that share a count and reset it by different zones. Of two tiers only those may that count
    /// within an org: it is of one tier at a time, and a window that has begun runs to its end.
    pub(super) fn check_shared_zones(&self, problems: &mut Problems) {
        let mut known: HashMap<IdHash, Vec<&Limit>> = HashMap::new();
        let limits = self.policies.iter().zip(&self.limits);
        for (policy, limit) in limits.filter(|(_, limit)| resets(limit)) {
            if let Some((field, message)) = of_each_org(limit).filter(|_| !limit.scope.within_org()) {
                let path = format!("policies ({})", policy.id);
                problems.add(policy.line_of(field), path, message);
            }
            let sharing = known.entry(limit.counter).or_default();
            if let Some(other) = sharing
                .iter()
                .find(|other| clash(limit, other) && meet(limit, other))
            {
                let line = policy.line_of("timezone");
                problems.add(line, format!("policies ({})", policy.id), told(limit, other));
            }
            if !sharing.iter().any(|other| stands_for(other, limit)) {
                sharing.push(limit);
            }
        }
    }

    /// Notes limits of an org's own that reset a count by another zone than its tier's, or than each other.
    pub(super) fn check_own_zones<'l>(
        &self,
        tier: u32,
        own: impl Iterator<Item = (&'l Who, &'l Limit)>,
        problems: &mut Problems,
    ) {
        let mut own: Vec<_> = own.filter(|(_, limit)| resets(limit)).collect();
        // Those for the whole org come first: they are for everybody's requests.
        own.sort_by_key(|(who, _)| **who != Who::Org);
        let of_tier = self.tiers[tier as usize].limits.iter();
        let of_tier: Vec<&Limit> = of_tier
            .filter_map(|index| self.limits.get(*index as usize))
            .filter(|limit| resets(limit) && limit.origin.other_set.is_none())
            .collect();
        let mut known: HashMap<(IdHash, &Who), Vec<&Limit>> = HashMap::new();
        for (who, limit) in own {
            let of_whom = |who| known.get(&(limit.counter, who)).into_iter().flatten();
            let beside = of_whom(who).chain(of_whom(&Who::Org)).chain(&of_tier);
            let other = beside.copied().find(|other| clash(limit, other));
            if let (Some(other), Some(change)) = (other, &limit.origin.overridden) {
                let message = format!("`{}` {}", limit.id, told(limit, other));
                change.problem(problems, "timezone", message);
            }
            let sharing = known.entry((limit.counter, who)).or_default();
            if !sharing.iter().any(|other| stands_for(other, limit)) {
                sharing.push(limit);
            }
        }
    }
}

/// Whether a limit begins its count anew at some midnight.
fn resets(limit: &Limit) -> bool {
    limit.is_quota() && limit.mode.is_some()
}

/// What of a quota each org has its own of, so that orgs can't have one count together.
fn of_each_org(limit: &Limit) -> Option<(&'static str, &'static str)> {
    if limit.zone == Zone::Org {
        let message = "counts organizations together, each of which has a midnight of its own: name a timezone, or add org to the scope";
        return Some(("timezone", message));
    }
    let message = "counts organizations together, each of which has a billing month of its own: take month, or add org to the scope";
    (limit.window == Window::Calendar(Period::BillingMonth)).then_some(("window", message))
}

/// Whether two limits would reset one count at different midnights. Those of one id never count for the same request:
/// they are a policy and what stands in for it.
fn clash(one: &Limit, other: &Limit) -> bool {
    one.counter == other.counter && one.zone != other.zone && one.id != other.id
}

/// Whether requests of both may be in one count.
fn meet(one: &Limit, other: &Limit) -> bool {
    let tiers = (&one.origin.tier, &other.origin.tier);
    !one.scope.within_org() || !matches!(tiers, (Some(tier), Some(other)) if tier != other)
}

/// Whether whoever clashes with one limit does so with another, so that only one of them need be kept in mind.
fn stands_for(one: &Limit, other: &Limit) -> bool {
    one.id == other.id && one.zone == other.zone && one.origin.tier == other.origin.tier
}

fn told(limit: &Limit, other: &Limit) -> String {
    format!(
        "shares its count with the policy `{}`, which resets it by the timezone {} and not {}: give one of them a counter \
         of its own, or both the same timezone",
        other.id, other.zone, limit.zone
    )
}
