//! What all orgs have in common: policies, tiers, routes and classes, compiled.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::KeySeed;

use super::Tier;
use super::beside::Beside;
use super::descriptors::{Descriptors, Place};
use super::fitting::field_of;
use super::limit::{Limit, Routes};
use super::org::OrgEntry;
use super::policy_values::PolicyValues;
use super::resolve::sort_key;
use crate::document::Problems;
use crate::model::{DEFAULT_TIER, DescriptorPath, Org, Past, Policy, PolicySet};
use crate::route::{Pattern, Router};

pub(super) struct Common {
    pub(super) seed: KeySeed,
    /// As they were written, for overrides to change.
    pub(super) policies: Vec<Policy>,
    /// Where each is, by its id.
    pub(super) policy_numbers: HashMap<Box<str>, u32>,
    /// How they counted before, by their ids.
    pasts: HashMap<Box<str>, Vec<Past>>,
    /// The same, compiled, in the same order, and after them the [besides](super::beside).
    pub(super) limits: Vec<Limit>,
    /// The besides: where each is here, by its number in the other set.
    pub(super) besides: HashMap<u32, u32>,
    pub(super) beside: Option<Beside>,
    pub(super) tiers: Vec<Tier>,
    pub(super) tier_names: HashMap<Box<str>, u32>,
    /// What an org is that the catalogue does not know.
    pub(super) stranger: OrgEntry,
    /// What an org is whose record can't be read.
    pub(super) unreadable: OrgEntry,
    pub(super) routes: Router,
    route_numbers: HashMap<Pattern, u32>,
    pub(super) descriptors: Descriptors,
    places: HashMap<DescriptorPath, Place>,
    pub(super) classes: Router,
    pub(super) class_names: Vec<Box<str>>,
    /// The class of each entry of `classes`.
    pub(super) class_of: Vec<u32>,
    /// Some limit counted otherwise a short while ago.
    pub(super) remembers: bool,
}

impl Common {
    /// Compiles some policies with what else of a set is not of an org, and how they counted before. It is of use once
    /// it has its [tiers](Self::add_tiers).
    pub(super) fn of(
        set: &PolicySet,
        policies: Vec<Policy>,
        pasts: Vec<Past>,
        seed: KeySeed,
        problems: &mut Problems,
    ) -> Self {
        let mut by_policy: HashMap<Box<str>, Vec<Past>> = HashMap::new();
        for past in pasts {
            let of_policy = by_policy.entry(past.policy.id.as_str().into());
            of_policy.or_default().push(past);
        }
        let ids = policies.iter().map(|policy| policy.id.as_str().into());
        let mut common = Self {
            seed,
            policy_numbers: ids.zip(0..).collect(),
            policies,
            pasts: by_policy,
            limits: Vec::new(),
            besides: HashMap::new(),
            beside: None,
            tiers: Vec::new(),
            tier_names: HashMap::new(),
            stranger: OrgEntry::plain(&Org::named(""), 0),
            unreadable: OrgEntry {
                unreadable: true,
                ..OrgEntry::plain(&Org::named(""), 0)
            },
            routes: Router::default(),
            route_numbers: HashMap::new(),
            descriptors: Descriptors::default(),
            places: HashMap::new(),
            classes: Router::default(),
            class_names: Vec::new(),
            class_of: Vec::new(),
            remembers: false,
        };
        common.add_classes(set);
        common.add_limits(set, problems);
        common
    }

    /// Adds the tiers: those that are declared, and those that orgs and policies name. They and the routes have the
    /// same numbers in the active set and in a candidate.
    pub(super) fn add_tiers(&mut self, set: &PolicySet, problems: &mut Problems) {
        let named = set.tiers.iter().map(String::as_str);
        let of_orgs = set.orgs.iter().map(|org| org.tier.as_str());
        let of_policies = of_either_set(set).filter_map(|policy| policy.tier.as_deref());
        for name in [DEFAULT_TIER]
            .into_iter()
            .chain(named)
            .chain(of_orgs)
            .chain(of_policies)
        {
            self.add_tier(name);
        }
        self.remembers = self.limits.iter().any(|limit| !limit.formers.is_empty());
        self.check_shared_counts(problems);
    }

    /// How a policy counted before.
    pub(super) fn pasts_of(&self, policy: &Policy) -> impl Iterator<Item = &Past> {
        self.pasts.get(policy.id.as_str()).into_iter().flatten()
    }

    /// The values that are others than in the past; `None` if more than that has changed: then an override may be for
    /// another policy, and numbers mean something else.
    pub(super) fn values_changed(&self, past: &Self) -> Option<PolicyValues> {
        let alike = |one: &Policy, other: &Policy| {
            one.id == other.id
                && one.tier == other.tier
                && one.scope == other.scope
                && one.pattern == other.pattern
                && one.required_scope == other.required_scope
                && one.path == other.path
                && one.values.window == other.values.window
        };
        let tiers = |common: &Self| -> Vec<(Box<str>, Vec<u32>)> {
            let tiers = common.tiers.iter();
            tiers
                .map(|tier| (tier.name.clone(), tier.limits.clone()))
                .collect()
        };
        let same = self.policies.len() == past.policies.len()
            && self
                .policies
                .iter()
                .zip(&past.policies)
                .all(|(one, other)| alike(one, other))
            && tiers(self) == tiers(past)
            && self.class_names == past.class_names
            && self.route_numbers == past.route_numbers;
        let pairs = (0..).zip(self.policies.iter().zip(&past.policies));
        let changed = pairs.map(|(number, (one, other))| (number, one.differing(other)));
        same.then(|| changed.filter(|(_, values)| !values.is_empty()).collect())
    }

    /// The number of a tier; an unknown one counts as the default.
    pub(super) fn tier_number(&self, name: &str) -> u32 {
        self.tier_names.get(name).copied().unwrap_or(0)
    }

    /// The number of a pattern's routes. One that no policy has is added to the routes of an org's own, which
    /// are numbered on from here. The error says which class there is not.
    pub(super) fn routes_of(&self, pattern: &Pattern, own: &mut OwnRoutes) -> Result<Routes, String> {
        match pattern {
            Pattern::Any => Ok(Routes::Any),
            Pattern::Class(class) => {
                let number = self.class_number(class);
                let routes = number.map(Routes::Class);
                routes.ok_or_else(|| format!("there is no endpoint class `{class}`"))
            }
            Pattern::Route(route) => {
                if let Some(number) = self.route_numbers.get(pattern) {
                    return Ok(Routes::Route(*number));
                }
                let next = self.route_numbers.len() + own.numbers.len();
                let next = u32::try_from(next).unwrap_or(u32::MAX);
                let number = *own.numbers.entry(pattern.clone()).or_insert(next);
                if number == next {
                    own.router.add(route, number);
                }
                Ok(Routes::Route(number))
            }
        }
    }

    /// The number of an endpoint class, if there is one of that name.
    pub(super) fn class_number(&self, class: &str) -> Option<u32> {
        let known = self.class_names.iter().position(|name| **name == *class);
        known.and_then(|number| u32::try_from(number).ok())
    }

    /// The place of the descriptor that a policy is for.
    pub(super) fn place_of(&self, policy: &Policy) -> Option<Place> {
        self.places.get(policy.path.as_ref()?).copied()
    }

    fn add_classes(&mut self, set: &PolicySet) {
        for (entry, class) in (0..).zip(&set.endpoint_classes) {
            let known = self.class_names.iter().position(|name| **name == class.class);
            let number = known.unwrap_or_else(|| {
                self.class_names.push(class.class.as_str().into());
                self.class_names.len() - 1
            });
            self.class_of.push(u32::try_from(number).unwrap_or(u32::MAX));
            match &class.pattern {
                Pattern::Route(route) => self.classes.add(route, entry),
                // Every path is below the root.
                _ => self.classes.add(&everything(), entry),
            }
        }
    }

    fn add_limits(&mut self, set: &PolicySet, problems: &mut Problems) {
        let mut own = OwnRoutes::default();
        for policy in of_either_set(set) {
            if matches!(policy.pattern, Pattern::Route(_)) {
                let _ = self.routes_of(&policy.pattern, &mut own);
            }
            if let Some(path) = &policy.path {
                let place = self.descriptors.add(path);
                self.places.insert(path.clone(), place);
            }
        }
        let mut limits = Vec::with_capacity(self.policies.len());
        for policy in &self.policies {
            let routes = self.routes_of(&policy.pattern, &mut own);
            let routes = routes.unwrap_or_else(|message| {
                let field = field_of(&policy.id, "endpointPattern");
                problems.add(policy.line_of("endpointPattern"), field, message);
                Routes::Any
            });
            let limit = Limit::new(policy, routes, self.seed).at(self.place_of(policy));
            limits.push(limit.after(self.pasts_of(policy).cloned(), self.seed));
        }
        self.limits = limits;
        (self.routes, self.route_numbers) = (own.router, own.numbers);
    }

    fn add_tier(&mut self, name: &str) {
        if self.tier_names.contains_key(name) {
            return;
        }
        let number = u32::try_from(self.tiers.len()).unwrap_or(u32::MAX);
        let fits = |limit: &Limit| limit.origin.tier.as_deref().is_none_or(|tier| tier == name);
        let numbered = (0..).zip(&self.limits);
        let mut limits: Vec<u32> = numbered
            .filter(|(_, limit)| fits(limit))
            .map(|(number, _)| number)
            .collect();
        limits.sort_by_key(|index| sort_key(&self.limits[*index as usize]));
        self.tier_names.insert(name.into(), number);
        self.tiers.push(Tier {
            name: name.into(),
            limits,
        });
    }
}

/// Routes that are an org's own.
#[derive(Default)]
pub(super) struct OwnRoutes {
    router: Router,
    numbers: HashMap<Pattern, u32>,
}

impl OwnRoutes {
    /// The router, if it has any.
    pub(super) fn into_router(self) -> Option<Arc<Router>> {
        (!self.numbers.is_empty()).then(|| Arc::new(self.router))
    }
}

/// The policies of the active set, and those that a candidate has in their place or beside them.
fn of_either_set(set: &PolicySet) -> impl Iterator<Item = &Policy> {
    let of_candidate = set.rollout.iter().flat_map(|rollout| &rollout.policies);
    set.policies.iter().chain(of_candidate)
}

fn everything() -> crate::route::Route {
    crate::route::Route {
        method: None,
        segments: Vec::new(),
        open: true,
    }
}
