//! The policy sets in force: the active one, and while a rollout is open its candidate beside it.
//!
//! Which of them decides for an org follows from the org's id alone. An org is compiled against that one, so that a
//! request looks nothing up for it; without a rollout there is nothing to choose.

use std::collections::{HashMap, HashSet};

use tollgate_core::{KeySeed, Timestamp};

use super::common::Common;
use super::fitting::field_of;
use super::limit::Limit;
use super::org::OrgEntry;
use super::policy_values::PolicyValues;
use crate::document::Problems;
use crate::model::{OrgRecord, Past, Policy, PolicySet, Rollout, Share};

pub(super) struct Sets {
    pub(super) active: Common,
    candidate: Option<Candidate>,
}

struct Candidate {
    share: Share,
    common: Common,
}

impl Sets {
    /// Compiles what of a set is not of an org, with its rollout.
    pub(super) fn of_set(set: &PolicySet, seed: KeySeed, problems: &mut Problems) -> Self {
        let pasts = pasts_of(set, &set.policies);
        let mut active = Common::of(set, set.policies.clone(), pasts, seed, problems);
        let mut of_candidate = Problems::default();
        let candidate = set.rollout.as_ref().map(|rollout| {
            let policies = rollout.applied_to(&set.policies);
            let mut pasts = pasts_of(set, &policies);
            pasts.extend(replaced(&set.policies, rollout));
            let mut common = Common::of(set, policies, pasts, seed, &mut of_candidate);
            active.try_out(&common, rollout);
            common.keep_counting(&active, rollout);
            common.stranger.candidate = true;
            common.add_tiers(set, &mut of_candidate);
            Candidate {
                share: rollout.share.clone(),
                common,
            }
        });
        active.add_tiers(set, problems);
        check_replaced(set, problems);
        if problems.0.is_empty() {
            // What is wrong with the active set is mostly wrong with the candidate too, and need not be said twice.
            problems.0 = of_candidate.0;
        }
        Self { active, candidate }
    }

    /// The values that are others than in the past; `None` if more than that has changed, so that nothing that was
    /// compiled then can be relied on.
    pub(super) fn values_changed(&self, past: &Self) -> Option<PolicyValues> {
        match (&self.candidate, &past.candidate) {
            (None, None) => self.active.values_changed(&past.active),
            _ => None,
        }
    }

    /// Which orgs the candidate decides, while a rollout is open.
    pub(super) fn share(&self) -> Option<&Share> {
        self.candidate.as_ref().map(|candidate| &candidate.share)
    }

    /// What an org is, as it is known or else as a stranger, and the set that decides for it.
    #[inline]
    pub(super) fn deciding<'s>(
        &'s self,
        known: Option<&'s OrgEntry>,
        org: Option<&str>,
    ) -> (&'s OrgEntry, &'s Common) {
        if self.candidate.is_some() {
            return self.deciding_in_rollout(known, org);
        }
        (known.unwrap_or(&self.active.stranger), &self.active)
    }

    /// Out of the way of checks while no rollout is open.
    #[inline(never)]
    fn deciding_in_rollout<'s>(
        &'s self,
        known: Option<&'s OrgEntry>,
        org: Option<&str>,
    ) -> (&'s OrgEntry, &'s Common) {
        let org = known.unwrap_or_else(|| &self.choose(org).0.stranger);
        (org, self.of(org))
    }

    /// The set that an org is compiled against.
    pub(super) fn of(&self, org: &OrgEntry) -> &Common {
        match &self.candidate {
            Some(candidate) if org.candidate => &candidate.common,
            _ => &self.active,
        }
    }

    /// The limits of both.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> {
        let of_candidate = self.candidate.iter();
        let of_candidate = of_candidate.flat_map(|candidate| &candidate.common.limits);
        self.active.limits.iter().chain(of_candidate)
    }

    /// Compiles an org that was checked before. What no longer fits since, because a policy went, does nothing.
    pub(super) fn compile_known(&self, record: &OrgRecord) -> OrgEntry {
        self.compile(record, None)
    }

    /// Compiles an org with its overrides, noting every problem.
    pub(super) fn compile_org(&self, record: &OrgRecord, problems: &mut Problems) -> OrgEntry {
        self.compile(record, Some(problems))
    }

    fn compile(&self, record: &OrgRecord, problems: Option<&mut Problems>) -> OrgEntry {
        let (own, other) = self.choose(Some(&record.org.id));
        let mut entry = own.compile_org(record, problems);
        entry.candidate = own.stranger.candidate;
        if let Some(other) = other.filter(|_| !record.overrides.is_empty()) {
            let of_other = other.compile_org(record, None).replacements;
            let beside = of_other.iter().filter_map(|one| own.beside(&one, other));
            entry.replacements = entry.replacements.with(beside, own.seed);
        }
        entry
    }

    /// The set that decides for an org, and the other one.
    fn choose(&self, org: Option<&str>) -> (&Common, Option<&Common>) {
        match &self.candidate {
            None => (&self.active, None),
            Some(Candidate { share, common }) if share.includes(org) => (common, Some(&self.active)),
            Some(Candidate { common, .. }) => (&self.active, Some(common)),
        }
    }
}

/// Notes policies that replace some that are not there. Only those of a file, which has lines: through the control plane
/// what is replaced may come later, or go first.
fn check_replaced(set: &PolicySet, problems: &mut Problems) {
    let of_file = |policy: &&Policy| policy.line > 0 && !policy.replaces.is_empty();
    let of_rollout = set.rollout.iter().flat_map(|rollout| &rollout.policies);
    let all = set.policies.iter().chain(of_rollout);
    let mut known: Option<HashSet<&str>> = None;
    for policy in set.policies.iter().filter(of_file) {
        let known = known.get_or_insert_with(|| all.clone().map(|policy| policy.id.as_str()).collect());
        for id in policy.replaces.iter().filter(|id| !known.contains(id.as_str())) {
            let near = problems.suggestion(id, known.iter().copied());
            let field = field_of(&policy.id, "replaces");
            let message = format!("there is no policy `{id}`{near}");
            problems.add(policy.line_of("replaces"), field, message);
        }
    }
}

/// How some policies counted before.
fn pasts_of(set: &PolicySet, policies: &[Policy]) -> Vec<Past> {
    if set.pasts.is_empty() {
        return Vec::new();
    }
    let policies: HashMap<&str, &Policy> = policies.iter().map(|policy| (&*policy.id, policy)).collect();
    let before = |past: &&Past| {
        let policy = policies.get(past.policy.id.as_str());
        policy.is_some_and(|policy| past.is_before(policy))
    };
    set.pasts.iter().filter(before).cloned().collect()
}

/// The active policies in whose place a candidate's count otherwise: to these they are what was before, for as long as
/// both are in force.
fn replaced(active: &[Policy], rollout: &Rollout) -> impl Iterator<Item = Past> {
    let otherwise = |policy: &&Policy| {
        let theirs = rollout.policies.iter().find(|other| other.id == policy.id);
        theirs.is_some_and(|theirs| theirs.count_name() != policy.count_name())
    };
    active.iter().filter(otherwise).map(|policy| Past {
        policy: policy.clone(),
        left: rollout.chosen,
        until: Timestamp::from_nanos(u64::MAX),
    })
}
