//! What of the catalogue has no effect on this node, since it does not fit what else there is, and why.
//!
//! The policy file of this node may be another than that of the node where it was made. It does not know how anything
//! is compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tollgate_catalog::model::KeptOverride;
use tollgate_catalog::repository::{Entry, Kind, Place};
use tollgate_catalog::snapshot::{Misfit, Snapshot};

use super::Token;
use super::contents::Held;

/// How many are remembered. Further ones have no effect either, but are not counted.
const MAX_LEFT_OUT: usize = 10_000;
/// How many are named in the log at a time.
const MAX_NAMED: usize = 10;

/// Something that is named and is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    Policy(String),
    Class(String),
    Tier(String),
    Org(String),
}

/// Why something is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// What it takes for it to have an effect again, if that is just something that is missing.
    pub(super) missing: Option<Missing>,
    pub(super) text: String,
}

/// What is left out, by its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(Arc<BTreeMap<Place, Reason>>);

impl Missing {
    fn is_there(&self, snapshot: &Snapshot) -> bool {
        match self {
            Self::Policy(id) => snapshot.has_policy(id),
            Self::Class(name) => snapshot.has_class(name),
            Self::Tier(name) => snapshot.tier(name).is_some(),
            Self::Org(id) => snapshot.knows_org(id),
        }
    }
}

impl From<Missing> for Reason {
    fn from(missing: Missing) -> Self {
        let text = match &missing {
            Missing::Policy(id) => format!("there is no policy `{id}`"),
            Missing::Class(name) => format!("there is no endpoint class `{name}`"),
            Missing::Tier(name) => format!("there is no tier `{name}`; the tier default counts"),
            Missing::Org(id) => format!("there is no org `{id}`"),
        };
        Self {
            missing: Some(missing),
            text,
        }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { missing: None, text }
    }
}

/// The part of an entry's body that names others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    tier: Option<String>,
    policy_id: Option<String>,
    endpoint_pattern: Option<String>,
}

impl LeftOut {
    /// Why something is left out, if it is.
    pub fn why(&self, place: &Place) -> Option<&str> {
        self.0.get(place).map(|reason| reason.text.as_str())
    }

    /// All of it, with why.
    pub fn iter(&self) -> impl Iterator<Item = (&Place, &str)> {
        self.0.iter().map(|(place, reason)| (place, reason.text.as_str()))
    }

    /// How much is left out.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if all is in force.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, place: Place, reason: impl Into<Reason>) {
        if self.0.len() < MAX_LEFT_OUT {
            Arc::make_mut(&mut self.0).insert(place, reason.into());
        }
    }

    pub(super) fn remove(&mut self, place: &Place) {
        if self.0.contains_key(place) {
            Arc::make_mut(&mut self.0).remove(place);
        }
    }

    fn retain(&mut self, stays: impl Fn(&Place, &Reason) -> bool) {
        if !self.0.iter().all(|(place, reason)| stays(place, reason)) {
            Arc::make_mut(&mut self.0).retain(|place, reason| stays(place, reason));
        }
    }

    /// Forgets what misses something that is there by now.
    pub(super) fn look_again(&mut self, snapshot: &Snapshot) {
        self.retain(|_, reason| {
            let missing = reason.missing.as_ref();
            missing.is_none_or(|missing| !missing.is_there(snapshot))
        });
    }

    /// Forgets the policies and rollouts that did not fit.
    pub(super) fn forget_misfits(&mut self, unreadable: impl Fn(&Place) -> bool) {
        self.retain(|place, _| !matches!(place.kind, Kind::Policy | Kind::Rollout) || unreadable(place));
    }

    /// Takes note of an entry of an org that names what is not there.
    pub(super) fn note_entry(&mut self, entry: &Entry, org_is_there: bool, snapshot: &Snapshot) {
        if let Some(missing) = missing_of(&entry.place, &entry.body, org_is_there, snapshot) {
            self.insert(entry.place.clone(), missing);
        }
    }

    /// Takes note anew of what of an org has no effect; with `overrides` of those, too.
    pub(super) fn note_org(&mut self, org: &str, held: &Held, snapshot: &Snapshot, overrides: bool) {
        self.forget_org(org);
        let is_there = snapshot.knows_org(org);
        self.note_names(org, held, is_there, snapshot);
        if !is_there || !overrides {
            return;
        }
        for ((_, id), json) in &held.overrides {
            let misfit = KeptOverride::Json(json.clone()).get();
            if let Some(why) = misfit.and_then(|change| snapshot.misfit(&change)) {
                self.insert(within(org, Kind::Override, id), why);
            }
        }
    }

    fn forget_org(&mut self, org: &str) {
        let own = |place: &Place| match place.kind {
            Kind::Org => place.id == org,
            Kind::Override | Kind::User => place.org == org,
            _ => false,
        };
        self.retain(|place, _| !own(place));
    }

    /// Takes note of what of an org names what is not there.
    pub(super) fn note_names(&mut self, org: &str, held: &Held, is_there: bool, snapshot: &Snapshot) {
        let tier = |name: &str| {
            snapshot
                .tier(name)
                .is_none()
                .then(|| Missing::Tier(name.to_owned()))
        };
        if let Some(missing) = held.org.as_ref().and_then(|known| tier(&known.tier)) {
            self.insert(within("", Kind::Org, org), missing);
        }
        for (id, user) in &held.users {
            let gone = (!is_there).then(|| Missing::Org(org.to_owned()));
            if let Some(missing) = gone.or_else(|| tier(&user.tier)) {
                self.insert(within(org, Kind::User, id), missing);
            }
        }
        for ((_, id), json) in &held.overrides {
            let place = within(org, Kind::Override, id);
            if let Some(missing) = missing_of(&place, json, is_there, snapshot) {
                self.insert(place, missing);
            }
        }
    }

    /// Takes over what another has.
    pub(super) fn extend(&mut self, other: &Self) {
        for (place, reason) in &*other.0 {
            self.insert(place.clone(), reason.clone());
        }
    }

    /// Takes note of a token if it is of an org that is not there.
    pub(super) fn note_token(&mut self, token: &Token, snapshot: &Snapshot) {
        if let Some(org) = token.org.as_deref().filter(|org| !snapshot.knows_org(org)) {
            self.note_orphan(Kind::Token, org, &token.id);
        }
    }

    /// Takes note of a key or token of an org that is not there.
    pub(super) fn note_orphan(&mut self, kind: Kind, org: &str, id: &str) {
        let owner = if kind == Kind::Token { "" } else { org };
        self.insert(within(owner, kind, id), Missing::Org(org.to_owned()));
    }

    /// Takes note of what is in force of a file beside the database and does not fit there.
    pub(super) fn note_problems(&mut self, problems: &tollgate_catalog::document::Problems) {
        for problem in &problems.0 {
            let id = format!("on line {} of the policy file", problem.line);
            self.insert(within("", Kind::Override, &id), problem.message.clone());
        }
    }

    /// Reports what is left out by now and was not before.
    pub(super) fn report_since(&self, before: &Self) {
        if self.0 == before.0 {
            return;
        }
        if self.is_empty() {
            tracing::info!("nothing of the catalogue is left out any more");
            return;
        }
        let new = self
            .0
            .iter()
            .filter(|(place, reason)| before.0.get(*place) != Some(*reason));
        let count = new.clone().count();
        for (place, reason) in new.take(MAX_NAMED) {
            let of = if place.org.is_empty() { "" } else { " of org " };
            tracing::warn!(
                "left out of the catalogue in force on this node, as it does not fit this node's policy file: \
                 {} {}{of}{}: {}",
                place.kind.name(),
                place.id,
                place.org,
                reason.text
            );
        }
        if count > MAX_NAMED {
            tracing::warn!(
                "and {} more; they are marked `leftOut` in lists",
                count - MAX_NAMED
            );
        }
    }
}

/// The place of a policy or a rollout that does not fit.
pub(super) fn place_of_misfit(misfit: &Misfit) -> Place {
    let kind = if misfit.is_rollout {
        Kind::Rollout
    } else {
        Kind::Policy
    };
    within("", kind, &misfit.id)
}

fn within(org: &str, kind: Kind, id: &str) -> Place {
    Place {
        kind,
        org: org.to_owned(),
        id: id.to_owned(),
    }
}

impl From<&Misfit> for Reason {
    fn from(misfit: &Misfit) -> Self {
        let messages = misfit.problems.0.iter().map(|problem| problem.message.as_str());
        Self::from(messages.collect::<Vec<_>>().join("; "))
    }
}

/// What an entry of an org misses to have an effect.
fn missing_of(place: &Place, body: &str, org_is_there: bool, snapshot: &Snapshot) -> Option<Missing> {
    let needs_org = matches!(place.kind, Kind::Override | Kind::User);
    if needs_org && !org_is_there {
        return Some(Missing::Org(place.org.clone()));
    }
    let read: Names = serde_json::from_str(body).ok()?;
    let class = read
        .endpoint_pattern
        .as_deref()
        .and_then(|pattern| pattern.strip_prefix("class:"));
    let named = match place.kind {
        Kind::Org | Kind::User => [read.tier.map(Missing::Tier), None],
        Kind::Override => [
            read.policy_id.map(Missing::Policy),
            class.map(|class| Missing::Class(class.to_owned())),
        ],
        _ => [None, None],
    };
    let mut named = named.into_iter().flatten();
    named.find(|missing| !missing.is_there(snapshot))
}
