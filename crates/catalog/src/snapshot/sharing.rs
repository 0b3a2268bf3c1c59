//! Limits that share a count agree on what one count can have only one of.
//!
//! A bucket has one rate and one size, and goes on past its limit or not: what it owes is cut to what it holds, as it must
//! be when it comes to hold less, and of two that hold unlike the smaller would let the larger off what it owes. A quota
//! has one midnight: of two, whichever comes first would begin the count anew for both. Windows just add up, and may be
//! held against any number of limits.

use std::collections::{HashMap, HashSet};

use tollgate_core::{IdHash, Mode, Period, Timestamp};

use super::common::Common;
use super::fitting::field_of;
use super::limit::Limit;
use super::own::Terms;
use crate::document::Problems;
use crate::model::{Who, Window, Zone};

/// What two limits on one count don't agree on: the field, and what is wrong.
struct Clash(&'static str, String);

impl Common {
    /// Notes policies that share a count and can't. Of two tiers those may that count within an org: it is of one tier at
    /// a time, where a window that has begun runs to its end, and a bucket has another size from then on.
    pub(super) fn check_shared_counts(&self, problems: &mut Problems) {
        let mut known: HashMap<IdHash, Vec<&Limit>> = HashMap::new();
        let limits = self.policies.iter().zip(&self.limits);
        for (policy, limit) in limits.filter(|(_, limit)| counts_as_one(limit)) {
            let before = problems.0.len();
            let mut note = |field, message: String| {
                problems.add(policy.line_of(field), field_of(&policy.id, field), message);
            };
            if let Some((field, message)) = of_each_org(limit).filter(|_| !limit.scope.within_org()) {
                note(field, message.to_owned());
            }
            let sharing = known.entry(limit.counter).or_default();
            let mut meeting = sharing.iter().filter(|other| meet(limit, other));
            if let Some(Clash(field, message)) = meeting.find_map(|other| clash(limit, other)) {
                note(field, message);
            }
            // One without lines will be left out, and then keeps no other out.
            let is_left_out = policy.line == 0 && problems.0.len() > before;
            if !is_left_out && !sharing.iter().any(|other| stands_for(other, limit)) {
                sharing.push(limit);
            }
        }
    }

    /// Notes limits of an org's own that share a count with its tier's, or with each other, and can't.
    pub(super) fn check_own_counts<'l>(
        &self,
        tier: u32,
        own: impl Iterator<Item = (&'l Terms, &'l Limit)>,
        problems: &mut Problems,
    ) {
        let mut own: Vec<_> = own.collect();
        // Most orgs have few overrides, of many policies.
        let counted = own.iter().filter(|(_, limit)| counts_as_one(limit));
        let counters: HashSet<IdHash> = counted.map(|(_, limit)| limit.counter).collect();
        if counters.is_empty() {
            return;
        }
        // Those for the whole org come first: they are for everybody's requests.
        own.sort_by_key(|(terms, _)| terms.who != Who::Org);
        let of_tier = self.tiers[tier as usize].limits.iter();
        let of_tier = of_tier.filter_map(|index| self.limits.get(*index as usize));
        let mut sharing_tier: HashMap<IdHash, Vec<&Limit>> = HashMap::new();
        for limit in of_tier.filter(|limit| counters.contains(&limit.counter)) {
            if counts_as_one(limit) && limit.origin.other_set.is_none() {
                sharing_tier.entry(limit.counter).or_default().push(limit);
            }
        }
        let stand_ins = StandIns::of(&own);
        let mut known: HashMap<(IdHash, &Who), Vec<&Limit>> = HashMap::new();
        for (terms, limit) in own.iter().filter(|(_, limit)| counts_as_one(limit)) {
            let of_whom = |who| known.get(&(limit.counter, who)).into_iter().flatten();
            let of_tier = sharing_tier.get(&limit.counter).into_iter().flatten();
            let in_force = of_tier.filter(|known| !stand_ins.hide(known, terms));
            let mut beside = of_whom(&terms.who)
                .chain(of_whom(&Who::Org))
                .chain(in_force)
                .copied();
            if let Some(Clash(field, message)) = beside.find_map(|other| clash(limit, other)) {
                let message = format!("`{}` {message}", limit.id);
                terms.change.problem(problems, field, message);
            }
            let sharing = known.entry((limit.counter, &terms.who)).or_default();
            if !sharing.iter().any(|other| stands_for(other, limit)) {
                sharing.push(limit);
            }
        }
    }
}

/// Whether there is anything of a limit's count that there is only one of.
fn counts_as_one(limit: &Limit) -> bool {
    limit.mode.is_some() && (limit.is_quota() || limit.is_bucket())
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

/// Why two limits can't share the count that they do. Those of one id never count for the same request: they are a
/// policy and what stands in for it, and where that could be in one count all the same it counts apart.
fn clash(one: &Limit, other: &Limit) -> Option<Clash> {
    if one.counter != other.counter || one.id == other.id {
        return None;
    }
    if !one.is_bucket() {
        return (one.zone != other.zone).then(|| Clash("timezone", two_midnights(one, other)));
    }
    let is_soft = |limit: &Limit| limit.mode == Some(Mode::Soft);
    let (field, why) = if one.rule.limit != other.rule.limit {
        let why = "a bucket can't refill at two rates: give both the same limit, or one a counter of its own";
        ("limit", why)
    } else if one.rule.capacity != other.rule.capacity {
        let why = "a bucket can't have two sizes: give both the same burst, or one a counter of its own";
        ("burst", why)
    } else if is_soft(one) != is_soft(other) {
        let why = "only one of them goes on past its limit: make both soft or none, or give one a counter of its own";
        ("mode", why)
    } else {
        return None;
    };
    let message = format!("shares its counter with the policy `{}`, and {why}", other.id);
    Some(Clash(field, message))
}

fn two_midnights(limit: &Limit, other: &Limit) -> String {
    format!(
        "shares its count with the policy `{}`, which resets it by the timezone {} and not {}: give one of them a counter \
         of its own, or both the same timezone",
        other.id, other.zone, limit.zone
    )
}

/// Whether requests of both may be in one count.
fn meet(one: &Limit, other: &Limit) -> bool {
    let tiers = (&one.origin.tier, &other.origin.tier);
    !one.scope.within_org() || !matches!(tiers, (Some(tier), Some(other)) if tier != other)
}

/// Whether whoever clashes with one limit does so with another, so that only one of them need be kept in mind.
fn stands_for(one: &Limit, other: &Limit) -> bool {
    one.id == other.id && one.origin.tier == other.origin.tier && clash_alike(one, other)
}

fn clash_alike(one: &Limit, other: &Limit) -> bool {
    one.zone == other.zone && one.rule == other.rule && one.mode == other.mode
}

/// Until when what an org has in place of a limit stands in for it, by the limit's id and for whom it does.
struct StandIns<'l>(HashMap<(&'l str, &'l Who), Timestamp>);

/// The end of an override that has none.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

impl<'l> StandIns<'l> {
    fn of(own: &[(&'l Terms, &'l Limit)]) -> Self {
        let mut ends = HashMap::new();
        for (terms, limit) in own {
            let end = ends.entry((&*limit.id, &terms.who)).or_insert(Timestamp::EPOCH);
            *end = terms.expires.unwrap_or(NEVER).max(*end);
        }
        Self(ends)
    }

    /// Whether a limit of the tier is in force for nobody whom an override is for, as long as that is.
    fn hide(&self, limit: &Limit, terms: &Terms) -> bool {
        let until = |who| self.0.get(&(&*limit.id, who)).copied();
        let until = until(&terms.who).max(until(&Who::Org));
        until.is_some_and(|until| until >= terms.expires.unwrap_or(NEVER))
    }
}
