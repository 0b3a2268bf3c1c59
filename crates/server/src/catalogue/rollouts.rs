//! The rollout that is open: what it may change, and what can't be changed meanwhile.

use tollgate_catalog::model::{KeptOverride, Rollout, RolloutState};
use tollgate_catalog::repository::{Change, Kind, Place};
use tollgate_catalog::snapshot::Snapshot;

use super::contents::Contents;
use super::documents::read_document;
use super::references::{overrides_of, tier_known};
use super::{FileSet, WriteError};

impl Contents {
    /// Takes note of a rollout: what it is now, or that it is gone.
    pub(super) fn take_rollout(&mut self, id: &str, rollout: Option<Rollout>) {
        match rollout.filter(|rollout| rollout.state == RolloutState::Open) {
            Some(rollout) => self.rollout = Some(rollout),
            None => drop(self.rollout.take_if(|open| open.share.rollout == id)),
        }
    }

    /// The open rollout, without what the policy file says by now: the file's is in force for all.
    pub(super) fn rollout_beside(&self, file: &FileSet) -> Option<Rollout> {
        let owned = |policy: &str| file.owns(&policy_place(policy));
        self.rollout.as_ref().map(|rollout| rollout.without(owned))
    }
}

/// Looks at a change with all the rest as it was before, and as it will be.
pub(super) fn check(
    change: &Change,
    before: &Contents,
    next: &Contents,
    snapshot: &Snapshot,
    file: &FileSet,
) -> Result<(), WriteError> {
    let id = &change.place.id;
    let open = before.rollout.as_ref().map(|open| &open.share.rollout);
    match (&change.body, change.place.kind) {
        (Some(body), Kind::Rollout) => {
            let rollout = serde_json::from_str(body).ok();
            let rollout = rollout.and_then(|body| read_document::<Rollout>(&body).ok());
            match rollout.filter(|rollout| rollout.state == RolloutState::Open) {
                Some(_) if open.is_some_and(|open| open != id) => Err(still_open(before)),
                Some(rollout) => may_change(&rollout, next, snapshot, file),
                None => Ok(()),
            }
        }
        (None, Kind::Rollout) if open == Some(id) => Err(still_open(before)),
        (_, Kind::Policy) => match &next.rollout {
            Some(rollout) if rollout.touches(id) => Err(WriteError::InUse(format!(
                "The rollout `{}` is open and changes the policy `{id}`: change it there, or promote it or roll it \
                 back first.",
                rollout.share.rollout
            ))),
            _ => Ok(()),
        },
        (None, Kind::Tier) => {
            let policies = next.rollout.iter().flat_map(|rollout| &rollout.policies);
            match policies.filter(|policy| policy.tier.as_ref() == Some(id)).count() {
                0 => Ok(()),
                count => Err(WriteError::InUse(format!(
                    "The tier `{id}` is in use by {count} policies of the rollout that is open."
                ))),
            }
        }
        _ => Ok(()),
    }
}

/// Refuses an override for a policy that the open rollout removes: where the candidate decides there is nothing that it
/// could be for, and it would keep the rollout from being promoted. One that was found by what it carries names its
/// policy, too.
pub(super) fn keep_policy(change: &Change, contents: &Contents) -> Result<(), WriteError> {
    let (Some(rollout), Some(body)) = (&contents.rollout, &change.body) else {
        return Ok(());
    };
    let change_of = KeptOverride::Json(body.as_str().into());
    let is_override = change.place.kind == Kind::Override;
    match rollout.removes.iter().find(|policy| change_of.names(policy)) {
        Some(policy) if is_override => Err(WriteError::InUse(format!(
            "The rollout `{}` is open and removes the policy `{policy}`: take it out of its `removes` first, or roll it back.",
            rollout.share.rollout
        ))),
        _ => Ok(()),
    }
}

/// Whether a candidate is one that could be promoted.
fn may_change(
    rollout: &Rollout,
    next: &Contents,
    snapshot: &Snapshot,
    file: &FileSet,
) -> Result<(), WriteError> {
    let replaced = rollout.policies.iter().map(|policy| &policy.id);
    for id in replaced.chain(&rollout.removes) {
        if file.owns(&policy_place(id)) {
            return Err(WriteError::OwnedByFile(format!("policy `{id}`")));
        }
    }
    for policy in &rollout.policies {
        tier_known(next, file, policy.tier.clone())?;
    }
    for id in &rollout.removes {
        if !next.policies.contains_key(id) {
            return Err(WriteError::Unknown(format!(
                "There is no policy `{id}` to remove."
            )));
        }
        let overrides = overrides_of(snapshot, id)?;
        if overrides > 0 {
            return Err(WriteError::Unknown(format!(
                "{overrides} overrides are for the policy `{id}`, so it can't be removed."
            )));
        }
    }
    Ok(())
}

fn still_open(contents: &Contents) -> WriteError {
    let open = contents.rollout.as_ref();
    let open = open.map_or("", |open| open.share.rollout.as_str());
    WriteError::InUse(format!(
        "The rollout `{open}` is open: promote it or roll it back first."
    ))
}

fn policy_place(id: &str) -> Place {
    Place {
        kind: Kind::Policy,
        org: String::new(),
        id: id.to_owned(),
    }
}
