//! Ways of counting that are in force, and which of them begin with a change.

use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate_core::Timestamp;

use super::{Past, Policy, Rollout};

/// The policies that are in force.
#[derive(Debug, Clone)]
pub struct InForce<'p> {
    /// The active ones.
    pub active: Vec<&'p Policy>,
    /// Those of a candidate, and for whom it is.
    pub rollout: Option<&'p Rollout>,
}

/// A policy's id, and the name of its count.
pub(super) type Key = (String, String);

/// A policy in force, and the name of its count.
pub(super) struct Way<'p> {
    pub(super) policy: &'p Policy,
    pub(super) name: String,
    pub(super) candidate: bool,
    pub(super) since: u64,
}

impl InForce<'_> {
    pub(super) fn ways(&self, since: impl Fn(&str, bool) -> u64) -> impl Iterator<Item = Way<'_>> {
        let active = self.active.iter().map(|policy| (*policy, false));
        let of_candidate = self.rollout.iter().flat_map(|rollout| &rollout.policies);
        let all = active.chain(of_candidate.map(|policy| (policy, true)));
        all.map(move |(policy, candidate)| Way {
            policy,
            name: policy.count_name(),
            candidate,
            since: since(&policy.id, candidate),
        })
    }

    /// Whether what comes after decides by the candidate for fewer.
    pub(super) fn lets_go(&self, after: &Self) -> bool {
        let shares = (self.rollout, after.rollout);
        matches!(shares, (Some(before), Some(after)) if after.share.percent < before.share.percent)
    }
}

impl Way<'_> {
    pub(super) fn key(&self) -> Key {
        (self.policy.id.clone(), self.name.clone())
    }

    /// Whether it is the same policy, counting the same way.
    fn is(&self, other: &Self) -> bool {
        self.policy.id == other.policy.id && self.name == other.name
    }

    pub(super) fn past(&self, since: u64, now: Timestamp) -> Past {
        let policy = Policy {
            since,
            ..self.policy.clone()
        };
        let until = now.saturating_add(policy.rule().horizon_ns());
        Past {
            policy,
            left: now,
            until,
        }
    }
}

/// What was counted before a change.
pub(super) struct Known<'k> {
    /// In force, by policy: the active one, then the candidate's.
    ways: HashMap<&'k str, Vec<&'k Way<'k>>>,
    /// The eras of what is in force, by the names of counts.
    pub(super) eras: HashMap<&'k str, u64>,
    /// No longer in force.
    pasts: &'k [Past],
    /// The candidate will decide for fewer.
    lets_go: bool,
}

impl<'k> Known<'k> {
    pub(super) fn of(all: &'k [Way<'k>], pasts: &'k [Past], lets_go: bool) -> Self {
        let mut ways: HashMap<&str, Vec<&Way<'_>>> = HashMap::new();
        for way in all {
            ways.entry(&way.policy.id).or_default().push(way);
        }
        Self {
            ways,
            eras: all.iter().map(|way| (way.name.as_str(), way.since)).collect(),
            pasts,
            lets_go,
        }
    }

    /// Whether a way of counting begins.
    pub(super) fn begins(&self, way: &Way<'_>) -> bool {
        let id = &way.policy.id;
        let Some(of_policy) = self.ways.get(id.as_str()) else {
            return self.pasts.iter().any(|past| past.policy.id == *id);
        };
        let Some(same) = of_policy.iter().find(|one| one.is(way)) else {
            return true;
        };
        let other = of_policy.iter().find(|one| !one.candidate);
        let other = other.filter(|active| !active.is(way));
        // Whoever is let go and chosen again must not find a count that lacks what it used in between.
        (self.lets_go && way.candidate && same.candidate)
            // What it takes the place of must be of an earlier era, to be known as what was before.
            || other.is_some_and(|active| active.since >= same.since)
    }

    /// The last era of a count that is no longer in force.
    pub(super) fn last(&self, way: &Way<'_>) -> Option<u64> {
        let alike = self.pasts.iter();
        let alike = alike.filter(|past| past.policy.count_name() == way.name);
        alike.map(|past| past.policy.since).max()
    }

    /// What is no longer in force after the change.
    pub(super) fn gone(&self, after: &[Way<'_>], now: Timestamp) -> BTreeMap<Key, Past> {
        let there: HashSet<Key> = after.iter().map(Way::key).collect();
        let before = self.ways.values().flatten();
        let gone = before.filter(|way| !there.contains(&way.key()));
        gone.map(|way| (way.key(), way.past(way.since, now))).collect()
    }
}
