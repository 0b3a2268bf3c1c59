//! From a policy set to a snapshot. Whatever does not fit together is found here, before anything is used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::{Algorithm, BillingAnchor, IdHash, KeySeed, Timestamp};

use super::limit::{Limit, Routes};
use super::org::{OrgEntry, OrgTable};
use super::resolve::sort_key;
use super::{Catalogue, Past, Snapshot, Tier};
use crate::document::Problems;
use crate::model::{DEFAULT_TIER, PolicySet};
use crate::route::{Pattern, Router};

/// How many past snapshots are remembered for the limits that count anew since.
const MAX_PASTS: usize = 4;

impl Snapshot {
    /// Compiles a policy set. With the snapshot it replaces, limits that now count anew start with no more
    /// room than their old counters have left.
    pub fn compile(
        set: &PolicySet,
        seed: KeySeed,
        replaces: Option<(&Arc<Self>, Timestamp)>,
    ) -> Result<Self, Problems> {
        let mut compiler = Compiler::new(set, seed);
        compiler.add_tiers();
        compiler.add_orgs();
        compiler.add_overrides();
        compiler.check_shared_buckets();
        if !compiler.problems.0.is_empty() {
            compiler.problems.0.sort_by_key(|problem| problem.line);
            return Err(compiler.problems);
        }
        let catalogue = Arc::new(compiler.catalogue);
        let formers = replaces.map_or_else(Vec::new, |(past, now)| catalogue.formers(past, now));
        Ok(Self { catalogue, formers })
    }
}

impl Catalogue {
    /// The past that a snapshot of this set has to keep, while a counter of it may still matter.
    fn formers(&self, past: &Snapshot, now: Timestamp) -> Vec<Past> {
        let inherited = past.formers.iter().filter(|older| now < older.until);
        let mut formers: Vec<Past> = inherited
            .map(|older| Past {
                catalogue: older.catalogue.clone(),
                until: older.until,
            })
            .collect();
        // A limit counts anew if, under the same id, the two sets know different counters.
        let mut counters: HashMap<&str, HashSet<IdHash>> = HashMap::new();
        for limit in self.all_limits() {
            counters.entry(&limit.id).or_default().insert(limit.counter);
        }
        let mut known: HashMap<&str, HashSet<IdHash>> = HashMap::new();
        for limit in past.catalogue.all_limits() {
            known.entry(&limit.id).or_default().insert(limit.counter);
        }
        let changed = |id: &str| counters.get(id).is_some_and(|now| known.get(id) != Some(now));
        let horizons = past
            .catalogue
            .all_limits()
            .filter(|limit| changed(&limit.id))
            .map(|limit| limit.rule.horizon_ns());
        if let Some(longest) = horizons.max() {
            formers.push(Past {
                catalogue: past.catalogue.clone(),
                until: now.saturating_add(longest),
            });
        }
        let surplus = formers.len().saturating_sub(MAX_PASTS);
        formers.drain(..surplus);
        formers
    }

    fn all_limits(&self) -> impl Iterator<Item = &Limit> {
        let replaced = self
            .orgs
            .iter()
            .flat_map(|org| org.replacements.iter().map(|r| &r.limit));
        let extra = self
            .orgs
            .iter()
            .flat_map(|org| org.extras.iter().map(|extra| &extra.limit));
        self.limits.iter().chain(replaced).chain(extra)
    }
}

pub(super) struct Compiler<'p> {
    pub(super) set: &'p PolicySet,
    pub(super) catalogue: Catalogue,
    route_numbers: HashMap<&'p Pattern, u32>,
    pub(super) problems: Problems,
}

impl<'p> Compiler<'p> {
    fn new(set: &'p PolicySet, seed: KeySeed) -> Self {
        let stranger = OrgEntry {
            id: "".into(),
            tier: 0,
            zone: TimeZone::UTC,
            anchor: BillingAnchor::First,
            replacements: Vec::new(),
            extras: Vec::new(),
        };
        let mut compiler = Self {
            set,
            catalogue: Catalogue {
                seed,
                limits: Vec::new(),
                tiers: Vec::new(),
                tier_names: HashMap::new(),
                orgs: OrgTable::default(),
                stranger,
                routes: Router::default(),
                classes: Router::default(),
                class_names: Vec::new(),
                class_of: Vec::new(),
            },
            route_numbers: HashMap::new(),
            problems: Problems::default(),
        };
        compiler.add_classes();
        compiler
    }

    fn add_classes(&mut self) {
        let catalogue = &mut self.catalogue;
        for (entry, class) in (0..).zip(&self.set.endpoint_classes) {
            let known = catalogue
                .class_names
                .iter()
                .position(|name| **name == class.class);
            let number = known.unwrap_or_else(|| {
                catalogue.class_names.push(class.class.as_str().into());
                catalogue.class_names.len() - 1
            });
            catalogue.class_of.push(u32::try_from(number).unwrap_or(u32::MAX));
            match &class.pattern {
                Pattern::Route(route) => catalogue.classes.add(route, entry),
                // Every path is below the root.
                _ => catalogue.classes.add(&everything(), entry),
            }
        }
    }

    /// The number of a pattern's routes, in the snapshot's routers.
    pub(super) fn routes(&mut self, pattern: &'p Pattern, line: usize) -> Routes {
        match pattern {
            Pattern::Any => Routes::Any,
            Pattern::Class(class) => {
                let known = self
                    .catalogue
                    .class_names
                    .iter()
                    .position(|name| **name == *class);
                if let Some(number) = known.and_then(|number| u32::try_from(number).ok()) {
                    return Routes::Class(number);
                }
                self.problems.add(
                    line,
                    "endpointPattern",
                    format!("there is no endpoint class `{class}`"),
                );
                Routes::Any
            }
            Pattern::Route(route) => {
                let next = u32::try_from(self.route_numbers.len()).unwrap_or(u32::MAX);
                let number = *self.route_numbers.entry(pattern).or_insert(next);
                if number == next {
                    self.catalogue.routes.add(route, number);
                }
                Routes::Route(number)
            }
        }
    }

    fn add_tiers(&mut self) {
        for policy in &self.set.policies {
            let routes = self.routes(&policy.pattern, policy.line);
            let limit = Limit::new(policy, routes, self.catalogue.seed);
            self.catalogue.limits.push(limit);
        }
        let set = self.set;
        let named = set.tiers.iter().map(String::as_str);
        let of_orgs = set.orgs.iter().map(|org| org.tier.as_str());
        let of_policies = set.policies.iter().filter_map(|policy| policy.tier.as_deref());
        for name in [DEFAULT_TIER]
            .into_iter()
            .chain(named)
            .chain(of_orgs)
            .chain(of_policies)
        {
            self.add_tier(name);
        }
    }

    fn add_tier(&mut self, name: &str) {
        let catalogue = &mut self.catalogue;
        if catalogue.tier_names.contains_key(name) {
            return;
        }
        let number = u32::try_from(catalogue.tiers.len()).unwrap_or(u32::MAX);
        let fits = |limit: &Limit| limit.origin.tier.as_deref().is_none_or(|tier| tier == name);
        let numbered = (0..).zip(&catalogue.limits);
        let mut limits: Vec<u32> = numbered
            .filter(|(_, limit)| fits(limit))
            .map(|(number, _)| number)
            .collect();
        limits.sort_by_key(|index| sort_key(&catalogue.limits[*index as usize]));
        catalogue.tier_names.insert(name.into(), number);
        catalogue.tiers.push(Tier {
            name: name.into(),
            limits,
        });
    }

    fn add_orgs(&mut self) {
        for org in &self.set.orgs {
            let tier = self
                .catalogue
                .tier_names
                .get(org.tier.as_str())
                .copied()
                .unwrap_or(0);
            let entry = OrgEntry {
                id: org.id.as_str().into(),
                tier,
                zone: org.zone.clone(),
                anchor: org.anchor,
                replacements: Vec::new(),
                extras: Vec::new(),
            };
            self.catalogue
                .orgs
                .insert(self.catalogue.seed.id(org.id.as_bytes()), entry);
        }
    }

    /// A bucket can't refill at two rates: limits of one tier that share a bucket must agree on theirs.
    fn check_shared_buckets(&mut self) {
        for tier in &self.catalogue.tiers {
            let mut seen: HashMap<_, &Limit> = HashMap::new();
            for limit in tier
                .limits
                .iter()
                .map(|index| &self.catalogue.limits[*index as usize])
            {
                if !matches!(
                    limit.rule.algorithm,
                    Algorithm::TokenBucket | Algorithm::LeakyBucket
                ) {
                    continue;
                }
                if let Some(other) = seen.insert(limit.counter, limit)
                    && other.rule.limit != limit.rule.limit
                {
                    let message = format!(
                        "shares its counter with the policy `{}`, and a bucket can't refill at two rates: give both the same limit",
                        other.id
                    );
                    self.problems
                        .add(limit.origin.line, format!("policies ({})", limit.id), message);
                }
            }
        }
        self.problems.0.dedup();
    }
}

fn everything() -> crate::route::Route {
    crate::route::Route {
        method: None,
        segments: Vec::new(),
        open: true,
    }
}
