//! The compiled catalogue: immutable, swapped whole, and quick to resolve a request in.

mod archive;
mod beside;
mod buckets;
mod common;
mod compile;
mod descriptors;
mod explain;
mod fitting;
mod formers;
mod idle;
mod ids;
mod keys;
mod limit;
mod name;
mod next;
mod org;
mod overriding;
mod own;
mod policy_values;
mod resolve;
mod sets;
mod sharing;
mod slowing;
mod table;
mod woken;

use std::sync::Arc;

use tollgate_core::{Algorithm, Calendar, Slowing, Timestamp};

pub use archive::{Archive, Span};
pub use explain::{Effective, Explanation, Skip, Verdict};
pub use fitting::Misfit;
pub use keys::{ApiKey, KeyHash};
pub use limit::{Limit, Origin, OtherSet};
pub use name::CounterName;
pub use resolve::Stack;

use crate::model::Share;
use keys::KeyTable;
use org::OrgEntry;
use sets::Sets;
use table::OrgTable;

/// A tier and the limits that apply to its orgs, from broad to narrow.
#[derive(Debug)]
pub struct Tier {
    /// Its name.
    pub name: Box<str>,
    limits: Vec<u32>,
}

/// A compiled policy set, and what it replaced a short while ago. Cloning it copies a few pointers.
#[derive(Clone)]
pub struct Snapshot {
    catalogue: Arc<Catalogue>,
    formers: Vec<Replaced>,
    slowings: Vec<Slowing>,
    keys: Arc<KeyTable>,
}

/// A compiled policy set by itself. It knows no past, so that one that is remembered keeps no others alive.
struct Catalogue {
    sets: Arc<Sets>,
    orgs: OrgTable,
}

/// A snapshot that was replaced by one in which overrides let some limits count anew, and how long that matters.
#[derive(Clone)]
struct Replaced {
    catalogue: Arc<Catalogue>,
    left: Timestamp,
    until: Timestamp,
}

impl Snapshot {
    /// The tiers, the default one first.
    pub fn tiers(&self) -> &[Tier] {
        &self.catalogue.sets.active.tiers
    }

    /// The names of the endpoint classes.
    pub fn classes(&self) -> &[Box<str>] {
        &self.catalogue.sets.active.class_names
    }

    /// The limits of every tier, in the active set.
    pub fn limits(&self) -> &[Limit] {
        let active = &self.catalogue.sets.active;
        active.limits.get(..active.policies.len()).unwrap_or_default()
    }

    /// Whether a policy is in force, for whomever.
    pub fn has_policy(&self, id: &str) -> bool {
        let mut limits = self.catalogue.sets.limits();
        limits.any(|limit| limit.policy_id() == id)
    }

    /// Which buckets refill more slowly than they did a while ago, the earlier ones first: a store has to know before this
    /// comes into force.
    pub fn slowings(&self) -> &[Slowing] {
        &self.slowings
    }

    /// How many orgs it knows.
    pub fn org_count(&self) -> usize {
        self.catalogue.orgs.len()
    }

    /// Which orgs a candidate decides, while a rollout is open.
    pub fn share(&self) -> Option<&Share> {
        self.catalogue.sets.share()
    }

    /// Whether it is the candidate that decides for an org, known or not.
    pub fn is_candidate(&self, org: Option<&str>) -> bool {
        self.entry_of(org).candidate
    }

    /// The tier of an org, known or not.
    pub fn tier_of(&self, org: Option<&str>) -> &Tier {
        &self.tiers()[self.entry_of(org).tier as usize]
    }

    fn entry_of(&self, org: Option<&str>) -> &OrgEntry {
        let Catalogue { sets, orgs } = &*self.catalogue;
        let known = org.and_then(|org| orgs.get(sets.active.seed.id(org.as_bytes()), org, sets));
        sets.deciding(known, org).0
    }

    /// The zone of an org, known or not.
    pub fn zone_of(&self, org: &str) -> &jiff::tz::TimeZone {
        &self.entry_of(Some(org)).zone
    }

    /// The present period of a quota for an org.
    pub fn period_of(&self, org: &str, limit: &Limit, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let entry = self.entry_of(Some(org));
        let calendar = Calendar {
            zone: limit.zone_of(entry),
            anchor: &entry.anchor,
        };
        match limit.rule.algorithm {
            Algorithm::Quota(period) => Some(calendar.period(period, now)),
            _ => None,
        }
    }

    /// When the next override of an org ends, after an instant. Until then its limits change with its records alone.
    pub fn next_end(&self, org: Option<&str>, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entry_of(org);
        let own = entry.replacements.iter().chain(entry.extras.iter());
        own.filter_map(|own| own.terms.expires)
            .filter(|end| *end > now)
            .min()
    }

    /// The limits of a tier, from broad to narrow, in the active set.
    pub fn limits_of<'s>(&'s self, tier: &'s Tier) -> impl Iterator<Item = &'s Limit> {
        let limits = tier.limits.iter();
        limits.filter_map(|index| self.limits().get(*index as usize))
    }

    /// A tier's limits with what an org as a whole has in their place at an instant, and its own beside them.
    pub fn limits_for_org<'s>(&'s self, org: Option<&str>, tier: &Tier, now: Timestamp) -> Vec<&'s Limit> {
        let entry = self.entry_of(org);
        let common = self.catalogue.sets.of(entry);
        let tier = &common.tiers[common.tier_number(&tier.name) as usize];
        let anyone = crate::Request::new();
        let replaced = |index: &u32| match entry.replacement(*index, &anyone, now, common) {
            Some(limit) => limit,
            None => &common.limits[*index as usize],
        };
        let extras = entry.extras_for(&anyone, now, common);
        tier.limits.iter().map(replaced).chain(extras).collect()
    }

    /// The id of the policy that an override of an org is for; `None` if it makes a limit of its own or does not
    /// fit.
    pub fn policy_of(&self, change: &crate::model::Override) -> Option<&str> {
        let org = self.entry_of(Some(&change.org));
        let policy = self.catalogue.sets.active.policy_of(change, org.tier)?;
        Some(&policy.id)
    }

    /// Why an override of an org has no effect, if it has none because what it names is not there.
    pub fn misfit(&self, change: &crate::model::Override) -> Option<String> {
        let org = self.entry_of(Some(&change.org));
        self.catalogue.sets.of(org).misfit(change, org.tier)
    }

    /// True if an org of this id is known.
    pub fn knows_org(&self, id: &str) -> bool {
        let sets = &self.catalogue.sets;
        self.catalogue.orgs.knows(sets.active.seed.id(id.as_bytes()))
    }

    /// True if there is an endpoint class of this name.
    pub fn has_class(&self, name: &str) -> bool {
        self.classes().iter().any(|class| **class == *name)
    }

    /// A tier by its name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        let active = &self.catalogue.sets.active;
        let number = active.tier_names.get(name)?;
        Some(&active.tiers[*number as usize])
    }
}
