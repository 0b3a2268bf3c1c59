//! Limits of the other set, counted beside a set's own while a rollout is open. They refuse nothing.
//!
//! In the active set they are the candidate's, so that it is known whom it would refuse before it does. Their counts
//! are apart from all others: what is only tried must not use up what is in force.
//!
//! In the candidate they are active limits whose counts nothing of its own goes on with. These are kept under the
//! very counters of the active set, so that an org that comes back finds there what it has used meanwhile.

use std::collections::HashSet;

use tollgate_core::{IdHash, Mode};

use super::common::Common;
use super::limit::{Limit, OtherSet};
use super::own::{OwnLimit, Terms};
use crate::model::{ACTIVE, Policy, Rollout};

/// How limits of the other set are counted.
pub(super) struct Beside {
    rollout: Box<str>,
    /// What keeps their counts apart; `None` to go on with them.
    apart: Option<IdHash>,
}

impl Beside {
    /// Whether there is anything to count: what would refuse nothing needs no trial.
    fn counts(&self, limit: &Limit) -> bool {
        match self.apart {
            Some(_) => limit.mode == Some(Mode::Enforce),
            None => limit.mode.is_some(),
        }
    }

    fn of(&self, mut limit: Limit) -> Limit {
        let set = if self.apart.is_some() {
            &*self.rollout
        } else {
            ACTIVE
        };
        let policy = std::mem::take(&mut limit.id);
        // No policy can have such an id.
        limit.id = format!("{policy}@{set}").into();
        limit.origin.other_set = Some(Box::new(OtherSet {
            policy,
            rollout: self.rollout.clone(),
            candidate: self.apart.is_some(),
        }));
        limit.shadow(!self.counts(&limit));
        if let Some(world) = self.apart {
            limit.counter = limit.counter.within(world);
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
        let tried = candidate.own_limits().filter(|(_, limit)| changes(limit));
        let tried: Vec<(u32, Limit)> = tried.map(|(number, limit)| (number, limit.clone())).collect();
        let world = format!("rollout {}", rollout.share.rollout);
        let apart = Some(self.seed.id(world.as_bytes()));
        self.add_beside(tried, rollout, apart);
    }

    /// Adds to a candidate those active limits whose counts none of its own goes on with.
    pub(super) fn keep_counting(&mut self, active: &Self, rollout: &Rollout) {
        let counted: HashSet<IdHash> = self.own_limits().map(|(_, limit)| limit.counter).collect();
        let kept = active
            .own_limits()
            .filter(|(_, limit)| !counted.contains(&limit.counter));
        let kept = kept.map(|(number, limit)| (number, limit.clone())).collect();
        self.add_beside(kept, rollout, None);
    }

    fn add_beside(&mut self, others: Vec<(u32, Limit)>, rollout: &Rollout, apart: Option<IdHash>) {
        let beside = Beside {
            rollout: rollout.share.rollout.as_str().into(),
            apart,
        };
        for (there, limit) in others.into_iter().filter(|(_, limit)| beside.counts(limit)) {
            let here = u32::try_from(self.limits.len()).unwrap_or(u32::MAX);
            self.limits.push(beside.of(limit));
            self.besides.insert(there, here);
        }
        self.beside = Some(beside);
    }

    /// What an org has in place of a limit of the other set, if that limit is counted here beside the own.
    pub(super) fn beside(&self, replacement: &OwnLimit<'_>, other: &Self) -> Option<(Terms, Limit)> {
        let (beside, of) = (
            self.beside.as_ref()?,
            *self.besides.get(&replacement.terms.base?)?,
        );
        let mut terms = replacement.terms.clone();
        terms.base = Some(of);
        Some((terms, beside.of(replacement.limit(other).clone())))
    }

    /// The limits of its own policies, with their numbers.
    pub(super) fn own_limits(&self) -> impl Iterator<Item = (u32, &Limit)> {
        (0..).zip(self.limits.iter().take(self.policies.len()))
    }
}
