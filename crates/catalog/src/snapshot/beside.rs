//! Limits of the other set, counted beside a set's own while a rollout is open. They refuse nothing.
//!
//! Some are *tried*: the candidate's in the active set, so that it is known whom it would refuse before it does. Their
//! counts are apart from all others, since what is only tried must not use up what is in force.
//!
//! Some are *kept* under the very counters of the other set, so that nothing is missing from those: active limits in the
//! candidate, for the orgs that may come back, and the candidate's in the active set where one count is for orgs of both.
//! They are soft, or else they would lack what has no room in them.

use std::collections::HashMap;

use tollgate_core::{Algorithm, IdHash, Mode};

use super::common::Common;
use super::limit::{Limit, OtherSet};
use super::name;
use super::own::{OwnLimit, Terms};
use crate::model::{ACTIVE, Policy, Rollout};

/// How limits of the other set are counted.
pub(super) struct Beside {
    rollout: Box<str>,
    /// They are the candidate's.
    candidate: bool,
    /// What keeps the counts apart of those that are tried.
    apart: IdHash,
}

/// A limit of the other set, by its number there.
struct Other {
    number: u32,
    limit: Limit,
    keeps: bool,
}

impl Beside {
    /// Whether there is anything to count: of a candidate only what would refuse somebody.
    fn counts(&self, limit: &Limit) -> bool {
        match limit.mode {
            Some(mode) => mode == Mode::Enforce || !self.candidate,
            None => false,
        }
    }

    /// A limit as it is tried, or kept.
    fn of(&self, mut limit: Limit, keeps: bool) -> Limit {
        let counts = self.counts(&limit);
        let set = if self.candidate { &*self.rollout } else { ACTIVE };
        let policy = std::mem::take(&mut limit.id);
        // No policy can have such an id.
        limit.id = format!("{policy}@{set}").into();
        limit.origin.other_set = Some(Box::new(OtherSet {
            policy,
            rollout: self.rollout.clone(),
            candidate: self.candidate,
        }));
        limit.expose = false;
        limit.refuse_nothing(counts.then_some(if keeps { Mode::Soft } else { Mode::Shadow }));
        if !keeps {
            limit.counter = limit.counter.within(self.apart);
            limit.name = name::hash(&[&limit.name, self.rollout.as_bytes()]);
            limit.formers = Vec::new();
        } else if limit.rule.algorithm == Algorithm::LeakyBucket {
            // The same count without turns: what is only kept holds nobody back.
            limit.rule.algorithm = Algorithm::TokenBucket;
        }
        limit
    }
}

impl Common {
    /// Adds to the active set what a candidate changes.
    pub(super) fn try_out(&mut self, candidate: &Self, rollout: &Rollout) {
        let changes = |limit: &Limit| {
            let is = |policy: &&Policy| *policy.id == *limit.id;
            match (self.policies.iter().find(is), rollout.policies.iter().find(is)) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(present), Some(wanted)) => !present.says_the_same(wanted),
            }
        };
        let tried: Vec<Other> = {
            let goes_on = self.goes_on();
            let tried = candidate.own_limits().filter(|(_, limit)| changes(limit));
            let other = |(number, limit): (u32, &Limit)| Other {
                number,
                limit: limit.clone(),
                keeps: !limit.scope.within_org() && !goes_on(limit),
            };
            tried.map(other).collect()
        };
        self.add_beside(tried, rollout, true);
    }

    /// Adds to a candidate those active limits whose counts none of its own goes on with.
    pub(super) fn keep_counting(&mut self, active: &Self, rollout: &Rollout) {
        let kept: Vec<Other> = {
            let goes_on = self.goes_on();
            let kept = active.own_limits().filter(|(_, limit)| !goes_on(limit));
            let other = |(number, limit): (u32, &Limit)| Other {
                number,
                limit: limit.clone(),
                keeps: true,
            };
            kept.map(other).collect()
        };
        self.add_beside(kept, rollout, false);
    }

    fn add_beside(&mut self, others: Vec<Other>, rollout: &Rollout, candidate: bool) {
        let rollout = &rollout.share.rollout;
        let beside = Beside {
            rollout: rollout.as_str().into(),
            candidate,
            apart: self.seed.id(format!("rollout {rollout}").as_bytes()),
        };
        for other in others.into_iter().filter(|other| beside.counts(&other.limit)) {
            let here = u32::try_from(self.limits.len()).unwrap_or(u32::MAX);
            self.limits.push(beside.of(other.limit, other.keeps));
            self.besides.insert(other.number, here);
        }
        self.beside = Some(beside);
    }

    /// Whether one of its own limits counts all that a limit of the other set does, under the same counters.
    fn goes_on(&self) -> impl Fn(&Limit) -> bool {
        let mut own: HashMap<IdHash, Vec<&Limit>> = HashMap::new();
        for (_, limit) in self.own_limits() {
            own.entry(limit.counter).or_default().push(limit);
        }
        move |other| {
            let mut same = own.get(&other.counter).into_iter().flatten();
            same.any(|own| own.counts_all_of(other))
        }
    }

    /// What an org has in place of a limit of the other set, if that limit is counted here beside the own.
    pub(super) fn beside(&self, replacement: &OwnLimit<'_>, other: &Self) -> Option<(Terms, Limit)> {
        let beside = self.beside.as_ref()?;
        let mut terms = replacement.terms.clone();
        terms.base = Some(*self.besides.get(&terms.base?)?);
        // What is an org's own is no count of several.
        let limit = beside.of(replacement.limit(other).clone(), !beside.candidate);
        Some((terms, limit))
    }

    /// The limits of its own policies, with their numbers.
    pub(super) fn own_limits(&self) -> impl Iterator<Item = (u32, &Limit)> {
        (0..).zip(self.limits.iter().take(self.policies.len()))
    }
}
