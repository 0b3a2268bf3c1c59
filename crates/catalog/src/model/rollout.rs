//! Rollouts: other policies for a share of the orgs, chosen by a hash that every node and version computes alike.

use std::collections::HashSet;

use sha2::{Digest, Sha256};
use tollgate_core::Timestamp;

use super::policy::Policy;
use super::{check_id, check_policy_id};
use crate::document::{Fields, Problems, Value};

/// How finely orgs are divided. Finer than whole percentages, so that finer shares would move nobody.
const BUCKETS: u64 = 10_000;
const BUCKETS_PER_PERCENT: u64 = BUCKETS / 100;

/// What the set in force is called beside a rollout.
pub(crate) const ACTIVE: &str = "active";

/// Which orgs a rollout's candidate decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The rollout's id. Each rollout chooses others, so that not the same orgs go first every time.
    pub rollout: String,
    /// How many of a hundred orgs.
    pub percent: u8,
}

/// What became of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutState {
    /// Its candidate decides its share of the orgs.
    Open,
    /// Its candidate became the active set.
    Promoted,
    /// The active set stayed.
    RolledBack,
}

/// A candidate set of policies beside the active one: what it changes, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Its id, and whom it is for.
    pub share: Share,
    /// Policies that the candidate has in place of active ones of the same id, or beside them.
    pub policies: Vec<Policy>,
    /// The active policies that the candidate lacks.
    pub removes: Vec<String>,
    /// What became of it.
    pub state: RolloutState,
    /// Since when it decides as it does, for all for whom it does; the epoch if nobody knows.
    pub chosen: Timestamp,
}

impl Share {
    /// Whether the candidate decides for an org. The larger share has all orgs of the smaller. Requests of no org
    /// follow when all orgs have.
    pub fn includes(&self, org: Option<&str>) -> bool {
        match (self.percent, org) {
            (100.., _) => true,
            (0, _) | (_, None) => false,
            (percent, Some(org)) => self.bucket(org) < u64::from(percent) * BUCKETS_PER_PERCENT,
        }
    }

    /// The bucket of an org. No id has a NUL, so no two pairs of ids are written alike.
    fn bucket(&self, org: &str) -> u64 {
        let hash = Sha256::new()
            .chain_update(self.rollout.as_bytes())
            .chain_update([0])
            .chain_update(org.as_bytes())
            .finalize();
        let first = hash.iter().take(8);
        first.fold(0, |word, byte| word << 8 | u64::from(*byte)) % BUCKETS
    }
}

impl RolloutState {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Promoted => "promoted",
            Self::RolledBack => "rolledBack",
        }
    }
}

impl Rollout {
    /// Reads `{id, percent, policies, removes, reason, state}`.
    pub fn read(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let id = fields.parsed("id", problems, |text| {
            check_policy_id(text)?;
            match text {
                ACTIVE => Err(format!("`{text}` stands for the set that a rollout is beside")),
                _ => Ok(text.to_owned()),
            }
        });
        if !fields.has("id") {
            fields.problem(problems, "id", "is missing");
        }
        let percent = fields.whole("percent", 100, problems);
        let policies = read_policies(&mut fields, problems);
        let removes = read_removes(&mut fields, problems);
        let _ = fields.text("reason", problems);
        let states = [
            RolloutState::Open,
            RolloutState::Promoted,
            RolloutState::RolledBack,
        ];
        let state = fields.one_of("state", problems, &states.map(|state| (state.name(), state)));
        if policies.is_empty() && removes.is_empty() && problems.0.len() == before {
            let message = "changes nothing: give policies that it has, or removes for those that it lacks";
            fields.problem(problems, "policies", message);
        }
        fields.finish(problems);
        if problems.0.len() > before {
            return None;
        }
        let share = Share {
            rollout: id?,
            percent: percent
                .and_then(|percent| u8::try_from(percent).ok())
                .unwrap_or(0),
        };
        Some(Self {
            share,
            policies,
            removes,
            state: state.unwrap_or(RolloutState::Open),
            chosen: Timestamp::EPOCH,
        })
    }

    /// Whether it decided already, in the same way, for all for whom another does.
    pub(crate) fn chooses_all_of(&self, other: &Self) -> bool {
        self.share.rollout == other.share.rollout
            && self.share.percent >= other.share.percent
            && self.policies == other.policies
    }

    /// Whether it has a policy in place of the active one, or lacks it.
    pub fn touches(&self, policy: &str) -> bool {
        self.policies.iter().any(|known| known.id == policy) || self.removes.iter().any(|id| id == policy)
    }

    /// The same without the changes of some policies.
    #[must_use]
    pub fn without(&self, policy: impl Fn(&str) -> bool) -> Self {
        let mut rest = self.clone();
        rest.policies.retain(|known| !policy(&known.id));
        rest.removes.retain(|id| !policy(id));
        rest
    }

    /// The candidate's policies: the active ones with the changes.
    pub fn applied_to(&self, active: &[Policy]) -> Vec<Policy> {
        let stay = active.iter().filter(|policy| !self.touches(&policy.id));
        stay.chain(&self.policies).cloned().collect()
    }
}

fn read_policies(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<Policy> {
    let mut policies: Vec<Policy> = Vec::new();
    let mut seen = HashSet::new();
    for (path, node) in fields.list("policies", problems) {
        let policy = Fields::of(node, &path, problems).and_then(|fields| Policy::read(fields, problems));
        let Some(policy) = policy else { continue };
        if !seen.insert(policy.id.clone()) {
            problems.add(node.line, path, format!("the id `{}` is there twice", policy.id));
        }
        policies.push(policy);
    }
    for (path, node) in fields.list("removes", problems) {
        if let Value::Scalar { text, .. } = &node.value
            && seen.contains(text)
        {
            problems.add(node.line, path, format!("`{text}` is among the policies too"));
        }
    }
    policies
}

fn read_removes(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let mut removes = Vec::new();
    for (path, node) in fields.list("removes", problems) {
        match &node.value {
            Value::Scalar { text, quoted: true } if check_id(text).is_ok() => removes.push(text.clone()),
            _ => problems.add(node.line, path, "must be a policy's id"),
        }
    }
    removes
}
