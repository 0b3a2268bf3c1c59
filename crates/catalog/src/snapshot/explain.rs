//! Why a policy applies to a request or does not, and where its values came from.

use std::fmt;

use tollgate_core::Timestamp;

use super::Snapshot;
use super::limit::Limit;
use super::org::ResetEntry;
use super::resolve::sort_key;
use crate::model::{Dimension, Reset, Who};
use crate::request::Request;
use crate::route::Matches;

/// Why a limit does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It is off.
    Off,
    /// The request's endpoint does not match its pattern.
    Endpoint,
    /// The request does not carry the permission it is for.
    RequiredScope,
    /// A descriptor is absent or has another value.
    Descriptor(String),
    /// It is for another descriptor than the request's, or the request brings none.
    OtherDescriptor,
    /// The request has nothing to count it by.
    Lacks(Dimension),
    /// It is for another tier.
    OtherTier(String),
    /// A value of the org's stands in for it.
    Overridden,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("its mode is off"),
            Self::Endpoint => f.write_str("the endpoint does not match its pattern"),
            Self::RequiredScope => f.write_str("the request does not carry its permission"),
            Self::Descriptor(name) => write!(f, "the descriptor `{name}` is absent or different"),
            Self::OtherDescriptor => f.write_str("the request brings another descriptor, or none"),
            Self::Lacks(dimension) => write!(f, "the request names no {dimension}"),
            Self::OtherTier(tier) => write!(f, "it is for the tier {tier}"),
            Self::Overridden => f.write_str("an override stands in for it"),
        }
    }
}

/// Whether a limit applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Applies,
    /// It does not.
    Skipped(Skip),
}

/// One limit and its verdict.
#[derive(Debug)]
pub struct Explanation<'s> {
    /// The limit.
    pub limit: &'s Limit,
    /// Whether it applies.
    pub verdict: Verdict,
}

/// A limit that is in force for an org, or for some of it.
#[derive(Debug)]
pub struct Effective<'s> {
    /// The limit.
    pub limit: &'s Limit,
    /// For whom of the org.
    pub who: String,
    /// The limit of the tier that it stands in for.
    pub hidden: Option<&'s Limit>,
    /// The limit of the tier that it stands beside, with other values.
    pub beside: Option<&'s Limit>,
}

impl Snapshot {
    /// The limits of an org whose counters a reset empties.
    pub fn emptied_by(&self, reset: &Reset, org: &str, now: Timestamp) -> Vec<&Limit> {
        let entry = ResetEntry::of(reset, self.catalogue.sets.active.seed);
        let everyone = Who::Org.to_string();
        let meant = |one: &Effective<'_>| {
            let whose = reset.who == Who::Org || one.who == everyone || one.who == reset.who.to_string();
            whose && entry.is_of(one.limit)
        };
        let effective = self.effective(org, now).into_iter();
        effective.filter(meant).map(|one| one.limit).collect()
    }

    /// What is in force for an org at an instant, from broad to narrow: the limits of its tier, with what stands
    /// in for them or beside them for all of it or for some.
    pub fn effective(&self, org: &str, now: Timestamp) -> Vec<Effective<'_>> {
        let entry = self.entry_of(Some(org));
        let common = self.catalogue.sets.of(entry);
        let mut all = Vec::new();
        for index in &common.tiers[entry.tier as usize].limits {
            let limit = &common.limits[*index as usize];
            // Of several for the same callers the first is the newest.
            let mut seen: Vec<&Who> = Vec::new();
            for one in entry.replacements.iter() {
                let terms = one.terms;
                if terms.base == Some(*index) && terms.in_force(now) && !seen.contains(&&terms.who) {
                    seen.push(&terms.who);
                    all.push(Effective {
                        limit: one.limit(common),
                        who: terms.who.to_string(),
                        hidden: Some(limit),
                        beside: None,
                    });
                }
            }
            if !seen.contains(&&Who::Org) {
                all.push(Effective {
                    limit,
                    who: Who::Org.to_string(),
                    hidden: None,
                    beside: None,
                });
            }
        }
        let extras = entry.extras.iter().filter(|extra| extra.terms.in_force(now));
        all.extend(extras.map(|extra| Effective {
            limit: extra.limit(common),
            who: extra.terms.who.to_string(),
            hidden: None,
            beside: extra.terms.base.and_then(|base| common.limits.get(base as usize)),
        }));
        all.sort_by(|one, other| sort_key(one.limit).cmp(&sort_key(other.limit)));
        all
    }

    /// The limit of the tier that one of an org's own stands in for.
    pub fn hidden_by(&self, org: Option<&str>, limit: &Limit) -> Option<&Limit> {
        let entry = self.entry_of(org);
        let mut replacements = entry.replacements.iter();
        let own = replacements.find(|own| own.is(limit))?;
        self.catalogue.sets.of(entry).limits.get(own.terms.base? as usize)
    }

    /// Every limit there is, with why it applies to the request or does not.
    pub fn explain<'s>(&'s self, request: &Request<'_>, now: Timestamp) -> Vec<Explanation<'s>> {
        let catalogue = &*self.catalogue;
        let (mut ids, mut routes) = (catalogue.ids(request), Matches::new());
        let lookup = catalogue.look_up(&mut ids, &mut routes);
        let (org, common) = (lookup.org, lookup.common);
        let judge = |limit: &'s Limit| {
            let verdict = limit.applies(request, lookup.ids, lookup.routes, lookup.class, lookup.place);
            Explanation {
                limit,
                verdict: verdict.map_or_else(Verdict::Skipped, |_| Verdict::Applies),
            }
        };
        let mut all = Vec::new();
        let user = org.user(request.user);
        for (index, limit) in (0..).zip(&common.limits) {
            let plan = user
                .filter(|_| limit.counts_users())
                .map_or(org.tier, |user| user.tier);
            let tier = &common.tiers[plan as usize];
            if let (false, Some(tier)) = (tier.limits.contains(&index), &limit.origin.tier) {
                all.push(Explanation {
                    limit,
                    verdict: Verdict::Skipped(Skip::OtherTier(tier.to_string())),
                });
                continue;
            }
            match org.replacement(index, request, now, common) {
                None => all.push(judge(limit)),
                Some(own) => {
                    all.push(judge(own));
                    all.push(Explanation {
                        limit,
                        verdict: Verdict::Skipped(Skip::Overridden),
                    });
                }
            }
        }
        all.extend(org.extras_for(request, now, common).map(judge));
        all.sort_by_key(|explanation| {
            let applies = explanation.verdict == Verdict::Applies;
            (!applies, sort_key(explanation.limit))
        });
        all
    }
}
