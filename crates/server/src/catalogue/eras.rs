//! The eras of policies: written with the very change that begins them, so that all nodes have the same; or of a policy
//! file, which only this process has seen change.

use tollgate_catalog::model::{InForce, PolicySet};
use tollgate_catalog::repository::{Change, Kind, Place};
use tollgate_core::Timestamp;

use super::FileSet;
use super::contents::Contents;
use super::preview::entry_of;

impl Contents {
    /// What a write changes of the eras. It must be the first of the changes: by its number the eras are told apart.
    pub(super) fn change_of_eras(&self, changes: &[Change], now: Timestamp) -> Option<Change> {
        let changes = changes.iter();
        let of_policies = changes.filter(|change| matches!(change.place.kind, Kind::Policy | Kind::Rollout));
        let mut of_policies = of_policies.peekable();
        of_policies.peek()?;
        let mut after = Self {
            policies: self.policies.clone(),
            rollout: self.rollout.clone(),
            ..Self::default()
        };
        for change in of_policies {
            after.take(&change.place, entry_of(change).as_ref());
        }
        let number = u64::try_from(self.revision + 1).unwrap_or(0);
        let eras = self.eras.next(&self.in_force(), &after.in_force(), number, now);
        (eras != self.eras).then(|| Change {
            place: Place {
                kind: Kind::Eras,
                org: String::new(),
                id: "policies".to_owned(),
            },
            body: eras.document().map(|document| document.to_string()),
        })
    }

    fn in_force(&self) -> InForce<'_> {
        InForce {
            active: self.policies.values().collect(),
            rollout: self.rollout.as_ref(),
        }
    }
}

impl FileSet {
    /// What is said by a file that was changed. Its eras are numbered by the clock of this process, so they are of no use
    /// to counters that other processes share.
    #[must_use]
    pub(super) fn changed(&self, set: PolicySet, now: Timestamp) -> Self {
        let eras = self
            .eras
            .next(&self.set.in_force(), &set.in_force(), now.nanos(), now);
        Self {
            given: true,
            set,
            eras,
        }
    }
}
