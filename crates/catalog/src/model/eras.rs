//! Eras: since when each policy counts the way it does, and how it counted before.
//!
//! A count that was left lacks what was let through since. So a policy that comes back to a way of counting does not
//! come back to the count: it begins another, of a new era, which is part of the count's name. What was left is
//! remembered as long as it can matter, since the new count begins with no more room than any of these has.
//!
//! Eras follow from the changes of policies alone, so that whoever follows the same changes has the same.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};
use tollgate_core::Timestamp;

use super::ways::{InForce, Known, Way};
use super::{Policy, PolicySet};
use crate::document::{Fields, Node, Problems};

/// A policy as it counted until a short while ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// The policy, with its era.
    pub policy: Policy,
    /// When it was left.
    pub left: Timestamp,
    /// From when on its counts are as good as untouched.
    pub until: Timestamp,
}

/// The eras of policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Eras {
    /// Of the active ones by their ids, where it is not the first.
    active: BTreeMap<String, u64>,
    /// Of those of a candidate.
    candidate: BTreeMap<String, u64>,
    /// Since when the candidate decides as it does, for all for whom it does.
    chosen: Option<Timestamp>,
    pasts: Vec<Past>,
}

impl Past {
    /// Whether it is how a policy counted before its era began.
    pub(crate) fn is_before(&self, policy: &Policy) -> bool {
        self.policy.id == policy.id && self.policy.since < policy.since
    }

    fn read(document: &Value) -> Option<Self> {
        let node = Node::from_json(document.get("policy")?);
        let mut problems = Problems::default();
        let fields = Fields::of(&node, "", &mut problems)?;
        let policy = Policy::read(fields, &mut problems)?;
        let until = instant(document.get("until")?)?;
        // What it had counted when it was left mattered until its end.
        let horizon = u64::try_from(policy.rule().horizon_ns()).unwrap_or(u64::MAX);
        Some(Self {
            left: Timestamp::from_nanos(until.nanos().saturating_sub(horizon)),
            policy: Policy {
                since: document.get("since")?.as_u64()?,
                ..policy
            },
            until,
        })
    }

    fn document(&self) -> Value {
        json!({
            "policy": self.policy.count_document(),
            "since": self.policy.since,
            "until": millis(self.until),
        })
    }
}

impl Eras {
    /// The eras after a change, under whose number those count that begin with it.
    #[must_use]
    pub fn next(&self, before: &InForce<'_>, after: &InForce<'_>, number: u64, now: Timestamp) -> Self {
        let pasts = self.pasts.iter().filter(|past| now < past.until);
        let mut pasts: Vec<Past> = pasts.cloned().collect();
        let known: Vec<Way<'_>> = before.ways(|id, candidate| self.since(id, candidate)).collect();
        let known = Known::of(&known, &pasts, before.lets_go(after));
        let mut ways: Vec<Way<'_>> = after.ways(|_, _| 0).collect();
        // Policies may share a count, which then begins anew for all of them.
        let begun = ways.iter().filter(|way| known.begins(way));
        let begun: HashSet<String> = begun.map(|way| way.name.clone()).collect();
        // By policy and name, since the same may be active and a candidate's.
        let mut left = known.gone(&ways, now);
        for way in &mut ways {
            let counted = known.eras.get(way.name.as_str()).copied();
            way.since = if begun.contains(&way.name) {
                left.extend(counted.map(|since| (way.key(), way.past(since, now))));
                number
            } else {
                counted.or_else(|| known.last(way)).unwrap_or(0)
            };
        }
        pasts.extend(left.into_values());
        Self {
            active: eras(&ways, false),
            candidate: eras(&ways, true),
            chosen: after.rollout.map(|rollout| match (before.rollout, self.chosen) {
                (Some(known), Some(chosen)) if known.chooses_all_of(rollout) => chosen,
                _ => now,
            }),
            pasts,
        }
    }

    /// Marks the policies of a set with their eras, and adds what was before.
    pub fn mark(&self, set: &mut PolicySet) {
        let pasts = set.pasts.len();
        self.mark_here(set);
        for policy in &mut set.policies {
            policy.shared_since = self.since(&policy.id, false);
        }
        for policy in set.rollout.iter_mut().flat_map(|rollout| &mut rollout.policies) {
            policy.shared_since = policy.since;
        }
        for past in &mut set.pasts[pasts..] {
            past.policy.shared_since = past.policy.since;
        }
    }

    /// The same for eras that other processes number otherwise: counters that are shared with them have none.
    pub fn mark_here(&self, set: &mut PolicySet) {
        for policy in &mut set.policies {
            policy.since = policy.since.max(self.since(&policy.id, false));
        }
        if let Some(rollout) = &mut set.rollout {
            rollout.chosen = self.chosen.unwrap_or(Timestamp::EPOCH);
            for policy in &mut rollout.policies {
                policy.since = self.since(&policy.id, true);
            }
        }
        set.pasts.extend(self.pasts.iter().cloned());
    }

    /// Reads what [`Self::document`] wrote.
    pub fn read(document: &Value) -> Self {
        let eras = |name: &str| {
            let eras = document[name].as_object().into_iter().flatten();
            eras.filter_map(|(id, since)| Some((id.clone(), since.as_u64()?)))
                .collect()
        };
        let pasts = document["pasts"].as_array().into_iter().flatten();
        Self {
            active: eras("active"),
            candidate: eras("candidate"),
            chosen: instant(&document["chosen"]),
            pasts: pasts.filter_map(Past::read).collect(),
        }
    }

    /// A document of it; `None` if there is nothing to tell.
    pub fn document(&self) -> Option<Value> {
        let pasts = self.pasts.iter().map(Past::document);
        (*self != Self::default()).then(|| {
            json!({
                "active": self.active,
                "candidate": self.candidate,
                "chosen": self.chosen.map(millis),
                "pasts": pasts.collect::<Vec<_>>(),
            })
        })
    }

    /// The number of the last era that is known; 0 if there is none.
    pub fn last(&self) -> u64 {
        let pasts = self.pasts.iter().map(|past| past.policy.since);
        let eras = self.active.values().chain(self.candidate.values()).copied();
        eras.chain(pasts).max().unwrap_or(0)
    }

    fn since(&self, policy: &str, candidate: bool) -> u64 {
        let eras = if candidate { &self.candidate } else { &self.active };
        eras.get(policy).copied().unwrap_or(0)
    }
}

/// An instant as a document has it, rounded up.
fn millis(at: Timestamp) -> u64 {
    at.nanos().div_ceil(1_000_000)
}

fn instant(millis: &Value) -> Option<Timestamp> {
    let millis = millis.as_u64()?;
    Some(Timestamp::from_nanos(millis.saturating_mul(1_000_000)))
}

fn eras(ways: &[Way<'_>], candidate: bool) -> BTreeMap<String, u64> {
    let ways = ways
        .iter()
        .filter(|way| way.candidate == candidate && way.since > 0);
    ways.map(|way| (way.policy.id.clone(), way.since)).collect()
}
