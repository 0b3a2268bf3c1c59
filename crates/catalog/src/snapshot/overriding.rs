//! Overrides: which policy each is for, and whether it stands in for it or beside it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::common::{Common, OwnRoutes};
use super::limit::Limit;
use super::org::{OrgEntry, ResetEntry, UserEntry};
use super::own::{OwnLimits, Terms};
use crate::document::{FieldLines, Problems};
use crate::model::{Dimension, KeptOverride, OrgRecord, Override, Past, Policy, Scope, Who};
use crate::route::Pattern;

impl Common {
    /// The policy that an override is for, whether it names it or is found by what it carries; `None` if it
    /// makes a limit of its own or does not fit.
    pub(super) fn policy_of(&self, change: &Override, tier: u32) -> Option<&Policy> {
        match self.pick(change, tier, &Problems::default()) {
            Ok(Pick::Policy(index)) => self.policies.get(index as usize),
            _ => None,
        }
    }

    /// Why an override has no effect, if it has none because what it names is not there.
    pub(super) fn misfit(&self, change: &Override, tier: u32) -> Option<String> {
        let pick = self.pick(change, tier, &Problems::default());
        let base = match pick {
            Err((_, message)) => return Some(message),
            Ok(Pick::Inert) => return None,
            Ok(Pick::New) => None,
            Ok(Pick::Policy(index)) => self.policies.get(index as usize),
        };
        match change.pattern.as_ref().or(base.map(|policy| &policy.pattern)) {
            Some(Pattern::Class(class)) if self.class_number(class).is_none() => {
                Some(format!("there is no endpoint class `{class}`"))
            }
            _ => None,
        }
    }

    /// Compiles an org with its overrides. Their limits are compiled when they are asked for, or with `problems` to be
    /// noted at once.
    pub(super) fn compile_org(&self, record: &OrgRecord, problems: Option<&mut Problems>) -> OrgEntry {
        let (checked, mut unnoted) = (problems.is_some(), Problems::default());
        let mut org = OrgInMaking {
            common: self,
            tier: self.tier_number(&record.org.tier),
            replacements: Vec::new(),
            extras: Vec::new(),
            routes: OwnRoutes::default(),
            problems: problems.unwrap_or(&mut unnoted),
            checked,
        };
        for change in record.overrides.iter().filter_map(KeptOverride::get) {
            org.add_override(change);
        }
        org.put_in_order();
        org.look_ahead();
        org.check_counts();
        let users = record.users.iter().map(|user| UserEntry {
            id: user.id.as_str().into(),
            tier: self.tier_number(&user.tier),
            anchor: user.anchor.unwrap_or(record.org.anchor),
        });
        let mut users: Vec<UserEntry> = users.collect();
        users.sort_by(|one, other| one.id.cmp(&other.id));
        let resets = record.resets.iter().map(|reset| ResetEntry::of(reset, self.seed));
        OrgEntry {
            replacements: OwnLimits::standing_in(org.replacements, self.seed),
            extras: OwnLimits::beside(org.extras, self),
            users: users.into(),
            resets: resets.collect(),
            routes: org.routes.into_router(),
            ..OrgEntry::plain(&record.org, org.tier)
        }
    }

    /// Compiles a limit of an org's own.
    pub(super) fn compile_limit(&self, terms: &Terms, problems: &mut Problems) -> Limit {
        let change = &*terms.change;
        let base = terms.base.and_then(|base| self.policies.get(base as usize));
        let policy = base.map_or_else(|| of_its_own(change), |base| changed(base, change));
        let line_of = |name: &str| change.line_of(name);
        policy.values.check(line_of, &change.path, problems);
        let mut limit = Limit::new(&policy, terms.routes, self.seed).at(self.place_of(&policy));
        limit.foresee(terms);
        limit.origin.overridden = Some(terms.change.clone());
        let pasts = base.into_iter().flat_map(|base| {
            let instead = replaces(base, change);
            let alike = move |past: &&Past| replaces(&past.policy, change) == instead;
            self.pasts_of(base).filter(alike)
        });
        let pasts = pasts.map(|past| Past {
            policy: changed(&past.policy, change),
            ..*past
        });
        limit.after(pasts, self.seed)
    }

    /// Which policy an override is for, or what is wrong with which of its fields, after so many problems.
    fn pick(
        &self,
        change: &Override,
        tier: u32,
        problems: &Problems,
    ) -> Result<Pick, (&'static str, String)> {
        let policies = &self.policies;
        let of_tier = &self.tiers[tier as usize].limits;
        if let Some(id) = &change.policy {
            let Some(&index) = self.policy_numbers.get(id.as_str()) else {
                let near = problems.suggestion(id, policies.iter().map(|policy| policy.id.as_str()));
                return Err(("policyId", format!("there is no policy `{id}`{near}")));
            };
            let policy = &policies[index as usize];
            if change.scope.as_ref().is_some_and(|scope| *scope != policy.scope) {
                let message = format!("the policy `{id}` has the scope {}", policy.scope);
                return Err(("scope", message));
            }
            // Other values for some requests only would leave the rest without the limit.
            if change.required_scope.is_some() && change.required_scope != policy.required_scope {
                let own = policy.required_scope.as_deref().unwrap_or("none");
                let message =
                    format!("the policy `{id}` has the requiredScope {own}; leave the override's out");
                return Err(("requiredScope", message));
            }
            return Ok(if of_tier.contains(&index) {
                Pick::Policy(index)
            } else {
                Pick::Inert
            });
        }
        let fits = |policy: &Policy| {
            change.scope.as_ref().is_none_or(|scope| *scope == policy.scope)
                && change
                    .pattern
                    .as_ref()
                    .is_none_or(|pattern| *pattern == policy.pattern)
                && change
                    .values
                    .window
                    .is_none_or(|window| Some(window) == policy.values.window)
                && (change.required_scope.is_none() || change.required_scope == policy.required_scope)
                // A file's is for the file's policies, whatever is made beside them.
                && (change.line == 0 || policy.line > 0)
        };
        let fitting: Vec<u32> = of_tier
            .iter()
            .copied()
            .filter(|index| policies.get(*index as usize).is_some_and(fits))
            .collect();
        match fitting.as_slice() {
            [index] => Ok(Pick::Policy(*index)),
            [] if change.values.limit.is_some() && change.values.window.is_some() => Ok(Pick::New),
            [] => {
                let message = format!(
                    "fits none of the policies of {}; name one by policyId, or give limit and window for a new limit",
                    change.org
                );
                Err(("", message))
            }
            several => {
                let ids: Vec<&str> = several
                    .iter()
                    .map(|index| policies[*index as usize].id.as_str())
                    .collect();
                let message = format!("fits several policies: {}; name one by policyId", ids.join(", "));
                Err(("", message))
            }
        }
    }
}

struct OrgInMaking<'c, 'p> {
    common: &'c Common,
    tier: u32,
    replacements: Vec<(Terms, Option<Limit>)>,
    extras: Vec<(Terms, Option<Limit>)>,
    routes: OwnRoutes,
    problems: &'p mut Problems,
    /// Whether problems of limits are to be noted.
    checked: bool,
}

impl OrgInMaking<'_, '_> {
    fn add_override(&mut self, change: Arc<Override>) {
        let base = match self.common.pick(&change, self.tier, self.problems) {
            Err((field, message)) => return change.problem(self.problems, field, message),
            // Only in a file, which has lines: one that was written before this was asked for does no harm.
            Ok(Pick::Policy(_) | Pick::Inert) if change.line > 0 && change.changes_nothing() => {
                let message = "changes nothing: beside which policy and whom it is for, it needs a value such as limit or mode";
                return change.problem(self.problems, "", message);
            }
            Ok(Pick::Inert) => return,
            Ok(Pick::Policy(index)) => Some(index),
            Ok(Pick::New) => None,
        };
        let policy = base.and_then(|base| self.common.policies.get(base as usize));
        let pattern = change.pattern.as_ref().or(policy.map(|policy| &policy.pattern));
        let routes = self
            .common
            .routes_of(pattern.unwrap_or(&Pattern::Any), &mut self.routes);
        let routes = match routes {
            Ok(routes) => routes,
            // Without its class it would be for all routes.
            Err(message) => return change.problem(self.problems, "endpointPattern", message),
        };
        let terms = Terms::new(base, routes, change);
        let limit = self
            .checked
            .then(|| self.common.compile_limit(&terms, self.problems));
        let replaces = policy.is_some_and(|policy| replaces(policy, &terms.change));
        let list = if replaces {
            &mut self.replacements
        } else {
            &mut self.extras
        };
        list.push((terms, limit));
    }

    /// Narrower beats wider, then newer beats older: the first that fits is taken.
    fn put_in_order(&mut self) {
        self.replacements.reverse();
        self.replacements
            .sort_by_key(|(terms, _)| Reverse(rank(&terms.who)));
    }

    /// Tells those that end what may be in force then: the policy, or another of them.
    fn look_ahead(&mut self) {
        if self.replacements.iter().all(|(terms, _)| terms.expires.is_none()) {
            return;
        }
        let mut least: HashMap<u32, u64> = HashMap::new();
        for (terms, _) in &self.replacements {
            let Some((base, policy)) = terms
                .base
                .and_then(|base| Some((base, self.common.policies.get(base as usize)?)))
            else {
                continue;
            };
            let limits = [terms.change.values.limit, policy.values.limit];
            let least = least.entry(base).or_insert(u64::MAX);
            *least = limits.into_iter().flatten().fold(*least, u64::min);
        }
        for (terms, limit) in &mut self.replacements {
            terms.then = terms
                .base
                .and_then(|base| least.get(&base).copied())
                .unwrap_or(u64::MAX);
            if let Some(limit) = limit {
                limit.foresee(terms);
            }
        }
    }

    fn check_counts(&mut self) {
        let own = self.replacements.iter().chain(&self.extras);
        let compiled = own.filter_map(|(terms, limit)| Some((terms, limit.as_ref()?)));
        self.common.check_own_counts(self.tier, compiled, self.problems);
    }
}

/// A policy with what an override sets in place of its own.
fn changed(base: &Policy, change: &Override) -> Policy {
    let mut policy = base.clone();
    policy.values = change.values.over(&base.values);
    if base.values.burst.is_some() && change.values.burst.is_none() && change.values.algorithm.is_some() {
        policy.values.burst = None;
    }
    let replaces = replaces(base, change);
    // A limit on all orgs is hidden from clients, and so is what it is for one of them.
    if base.scope.single() == Some(&Dimension::Global) {
        policy.values.expose = policy.values.expose.or(Some(false));
    }
    if !replaces || !base.scope.within_org() {
        // Counted apart: by whom it is for, under an id that tells it from the policy's own.
        policy.scope = base.scope.with(change.who.dimension());
    }
    if !replaces {
        policy.id = id_beside(Some(base), change);
    }
    if let Some(pattern) = narrower_route(base, change) {
        policy.pattern = pattern.clone();
    }
    policy.apart = apart(base, &policy, &change.who);
    policy
}

/// The app whose use of a key is counted apart. Nothing keeps a key from being used under several apps, and then the
/// numbers of one of them must not be held against what was counted by another's.
fn apart(base: &Policy, changed: &Policy, who: &Who) -> Option<String> {
    let by_app = changed.scope.dimensions().contains(&Dimension::App);
    match who {
        Who::App(app) if !by_app && !changed.can_share_a_count(base) => Some(app.clone()),
        _ => None,
    }
}

/// What a limit that only one org has counts by.
fn own_scope(change: &Override) -> Scope {
    let scope = change.scope.clone().unwrap_or_default();
    match change.who {
        Who::Org => scope,
        _ if change.scope.is_none() => Scope::of(change.who.dimension()),
        _ => scope.with(change.who.dimension()),
    }
}

/// A limit that only one org has.
fn of_its_own(change: &Override) -> Policy {
    let scope = own_scope(change);
    Policy {
        id: id_beside(None, change),
        tier: None,
        scope: if scope.within_org() {
            scope
        } else {
            scope.with(Dimension::Org)
        },
        pattern: change.pattern.clone().unwrap_or_default(),
        required_scope: change.required_scope.clone(),
        descriptors: Vec::new(),
        path: None,
        replaces: Vec::new(),
        quota_mode: false,
        values: change.values.clone(),
        apart: None,
        since: 0,
        shared_since: 0,
        line: change.line,
        lines: FieldLines::default(),
    }
}

enum Pick {
    /// This policy.
    Policy(u32),
    /// A policy that is not for the org's tier.
    Inert,
    /// None: it makes a limit of its own.
    New,
}

/// Whether an override stands in for a policy. Where it is for fewer routes, or for someone narrower than what is
/// counted together, it is a cap of its own beside the limit instead, since a narrower limit only tightens; so it is
/// with an org against limits that protect the service from all orgs.
fn replaces(policy: &Policy, change: &Override) -> bool {
    let scope = &policy.scope;
    let has = |dimension: &Dimension| scope.dimensions().contains(dimension);
    narrower_route(policy, change).is_none()
        && match change.who {
            Who::Org => !has(&Dimension::Global) && (scope.within_org() || !has(&Dimension::Endpoint)),
            Who::App(_) => has(&Dimension::App) || has(&Dimension::Key),
            Who::User(_) => has(&Dimension::User),
            Who::Key(_) => has(&Dimension::Key),
        }
}

/// The routes of an override, where they are not the policy's.
fn narrower_route<'o>(policy: &Policy, change: &'o Override) -> Option<&'o Pattern> {
    change
        .pattern
        .as_ref()
        .filter(|pattern| **pattern != policy.pattern)
}

fn rank(who: &Who) -> u8 {
    match who {
        Who::Org => 0,
        Who::App(_) => 1,
        Who::User(_) => 2,
        Who::Key(_) => 3,
    }
}

/// The id of a limit that an override made: the policy's, or what it counts by and for how long, and whom and what it is
/// for.
pub(super) fn id_beside(policy: Option<&Policy>, change: &Override) -> String {
    let base = policy.map_or_else(
        || {
            let window = change.values.window;
            let window = window.map_or_else(String::new, |window| format!("-{window}"));
            format!("{}{window}", own_scope(change).to_string().replace('+', "."))
        },
        |policy| policy.id.clone(),
    );
    let who = match &change.who {
        Who::Org => format!("org:{}", change.org),
        Who::App(id) => format!("app:{id}"),
        Who::User(id) => format!("user:{id}"),
        Who::Key(id) => format!("key:{id}"),
    };
    let route = change
        .pattern
        .as_ref()
        .map_or_else(String::new, |pattern| format!(":{pattern}"));
    let permission = change
        .required_scope
        .as_ref()
        .map_or_else(String::new, |scope| format!(":{scope}"));
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || "._:-".contains(character) {
            character
        } else {
            '.'
        }
    };
    let mut id: String = format!("{base}:{who}{route}{permission}")
        .chars()
        .map(plain)
        .collect();
    id.truncate(128);
    id
}
