//! The compiled catalogue: immutable, swapped whole, and quick to resolve a request in.

mod compile;
mod explain;
mod ids;
mod limit;
mod org;
mod overriding;
mod resolve;

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{KeySeed, Timestamp};

use crate::route::Router;

pub use explain::{Explanation, Skip, Verdict};
pub use limit::{Limit, Origin, OverrideNote};
pub use resolve::Stack;

use org::{OrgEntry, OrgTable};

/// A tier and the limits that apply to its orgs, from broad to narrow.
#[derive(Debug)]
pub struct Tier {
    /// Its name.
    pub name: Box<str>,
    limits: Vec<u32>,
}

/// A compiled policy set, and what it replaced a short while ago.
pub struct Snapshot {
    catalogue: Arc<Catalogue>,
    formers: Vec<Past>,
}

/// A compiled policy set by itself. It knows no past, so that one that is remembered keeps no others alive.
struct Catalogue {
    seed: KeySeed,
    limits: Vec<Limit>,
    tiers: Vec<Tier>,
    tier_names: HashMap<Box<str>, u32>,
    orgs: OrgTable,
    /// What an org is that the catalogue does not know.
    stranger: OrgEntry,
    routes: Router,
    classes: Router,
    class_names: Vec<Box<str>>,
    /// The class of each entry of `classes`.
    class_of: Vec<u32>,
}

/// A policy set that was replaced by one in which some limits count anew, and how long that matters.
struct Past {
    catalogue: Arc<Catalogue>,
    until: Timestamp,
}

impl Snapshot {
    /// The tiers, the default one first.
    pub fn tiers(&self) -> &[Tier] {
        &self.catalogue.tiers
    }

    /// The names of the endpoint classes.
    pub fn classes(&self) -> &[Box<str>] {
        &self.catalogue.class_names
    }

    /// The limits of every tier.
    pub fn limits(&self) -> &[Limit] {
        &self.catalogue.limits
    }

    /// How many orgs it knows.
    pub fn org_count(&self) -> usize {
        self.catalogue.orgs.len()
    }

    /// The tier of an org, known or not.
    pub fn tier_of(&self, org: Option<&str>) -> &Tier {
        let entry = org.and_then(|org| {
            self.catalogue
                .orgs
                .get(self.catalogue.seed.id(org.as_bytes()), org)
        });
        &self.catalogue.tiers[entry.unwrap_or(&self.catalogue.stranger).tier as usize]
    }

    /// The limits of a tier, from broad to narrow.
    pub fn limits_of<'s>(&'s self, tier: &'s Tier) -> impl Iterator<Item = &'s Limit> {
        tier.limits
            .iter()
            .map(|index| &self.catalogue.limits[*index as usize])
    }

    /// A tier's limits with what an org as a whole has in their place at an instant, and its own beside them.
    pub fn limits_for_org<'s>(&'s self, org: Option<&str>, tier: &'s Tier, now: Timestamp) -> Vec<&'s Limit> {
        let entry = org.and_then(|org| {
            self.catalogue
                .orgs
                .get(self.catalogue.seed.id(org.as_bytes()), org)
        });
        let entry = entry.unwrap_or(&self.catalogue.stranger);
        let anyone = crate::Request::new();
        let replaced = |index: &u32| match entry.replacement(*index, &anyone, now) {
            Some(replacement) => &replacement.limit,
            None => &self.catalogue.limits[*index as usize],
        };
        let extras = entry.extras_for(&anyone, now);
        tier.limits
            .iter()
            .map(replaced)
            .chain(extras.map(|extra| &extra.limit))
            .collect()
    }

    /// A tier by its name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.catalogue
            .tier_names
            .get(name)
            .map(|index| &self.catalogue.tiers[*index as usize])
    }
}
