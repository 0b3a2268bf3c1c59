//! Overrides: which policy each is for, and whether it stands in for it or beside it.

use super::common::{Common, OwnRoutes};
use super::limit::{Limit, OverrideNote, Routes};
use super::org::{Condition, Extra, OrgEntry, Replacement, ResetEntry, UserEntry};
use crate::document::{Problems, suggestion};
use crate::model::{Dimension, KeptOverride, Org, OrgRecord, Override, Past, Policy, Scope, ValueSet, Who};
use crate::route::Pattern;

impl Common {
    /// The policy that an override is for, whether it names it or is found by what it carries; `None` if it
    /// makes a limit of its own or does not fit.
    pub(super) fn policy_of(&self, change: &Override, tier: u32) -> Option<&Policy> {
        let org = OrgInMaking {
            common: self,
            entry: OrgEntry::plain(&Org::named(&change.org), tier),
            routes: OwnRoutes::default(),
            problems: &mut Problems::default(),
        };
        match org.pick(change) {
            Ok(Pick::Policy(index)) => self.policies.get(index as usize),
            _ => None,
        }
    }

    /// Compiles an org with its overrides, noting every problem.
    pub(super) fn compile_org(&self, record: &OrgRecord, problems: &mut Problems) -> OrgEntry {
        let mut org = OrgInMaking {
            common: self,
            entry: OrgEntry::plain(&record.org, self.tier_number(&record.org.tier)),
            routes: OwnRoutes::default(),
            problems,
        };
        for change in record.overrides.iter().filter_map(KeptOverride::get) {
            org.add_override(&change);
        }
        let users = record.users.iter().map(|user| UserEntry {
            id: user.id.as_str().into(),
            tier: self.tier_number(&user.tier),
            anchor: user.anchor.unwrap_or(record.org.anchor),
        });
        let resets = record.resets.iter().map(|reset| ResetEntry::of(reset, self.seed));
        OrgEntry {
            users: users.collect(),
            resets: resets.collect(),
            routes: org.routes.into_router(),
            ..org.entry
        }
    }
}

struct OrgInMaking<'c, 'p> {
    common: &'c Common,
    entry: OrgEntry,
    routes: OwnRoutes,
    problems: &'p mut Problems,
}

impl OrgInMaking<'_, '_> {
    fn add_override(&mut self, change: &Override) {
        match self.pick(change) {
            Err(message) => self.problems.add(change.line, &change.path, message),
            // Only in a file, which has lines: one that was written before this was asked for does no harm.
            Ok(Pick::Policy(_) | Pick::Inert) if change.line > 0 && change.changes_nothing() => {
                let message = "changes nothing: beside which policy and whom it is for, it needs a value such as limit or mode";
                self.problems.add(change.line, &change.path, message);
            }
            Ok(Pick::Inert) => {}
            Ok(Pick::Policy(index)) => self.change_policy(change, index),
            Ok(Pick::New) => self.add_limit(change),
        }
    }

    /// The policy that an override is for.
    fn pick(&self, change: &Override) -> Result<Pick, String> {
        let policies = &self.common.policies;
        let of_tier = &self.common.tiers[self.entry.tier as usize].limits;
        if let Some(id) = &change.policy {
            let Some(index) = policies.iter().position(|policy| policy.id == *id) else {
                let near = suggestion(id, policies.iter().map(|policy| policy.id.as_str()));
                return Err(format!("there is no policy `{id}`{near}"));
            };
            let policy = &policies[index];
            if change.scope.as_ref().is_some_and(|scope| *scope != policy.scope) {
                return Err(format!("the policy `{id}` has the scope {}", policy.scope));
            }
            // Other values for some requests only would leave the rest without the limit.
            if change.required_scope.is_some() && change.required_scope != policy.required_scope {
                let own = policy.required_scope.as_deref().unwrap_or("none");
                return Err(format!(
                    "the policy `{id}` has the requiredScope {own}; leave the override's out"
                ));
            }
            let index = u32::try_from(index).unwrap_or(u32::MAX);
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
        };
        let fitting: Vec<u32> = of_tier
            .iter()
            .copied()
            .filter(|index| policies.get(*index as usize).is_some_and(fits))
            .collect();
        match fitting.as_slice() {
            [index] => Ok(Pick::Policy(*index)),
            [] if change.values.limit.is_some() && change.values.window.is_some() => Ok(Pick::New),
            [] => Err(format!(
                "fits none of the policies of {}; name one by policyId, or give limit and window for a new limit",
                change.org
            )),
            several => {
                let ids: Vec<&str> = several
                    .iter()
                    .map(|index| policies[*index as usize].id.as_str())
                    .collect();
                Err(format!(
                    "fits several policies: {}; name one by policyId",
                    ids.join(", ")
                ))
            }
        }
    }

    fn change_policy(&mut self, change: &Override, index: u32) {
        let base = &self.common.policies[index as usize];
        self.entry.left.add(index, ValueSet::left_by(&change.values));
        let (policy, replaces) = changed(base, change);
        let line = change.line;
        policy.values.check(line, &change.path, self.problems);
        let routes = self.routes_of(&policy.pattern, line);
        let limit = self.overridden(&policy, routes, change);
        let pasts = self.common.pasts_of(base).filter_map(|past| {
            let (policy, instead) = changed(&past.policy, change);
            (instead == replaces).then_some(Past { policy, ..*past })
        });
        let limit = limit.after(pasts, self.common.seed);
        let when = condition(change);
        let entry = &mut self.entry;
        if replaces {
            // Narrower beats wider, then newer beats older: the first that fits is taken.
            let rank = rank(&change.who);
            let place = entry
                .replacements
                .iter()
                .position(|other| rank >= self::rank(&other.when.who));
            let place = place.unwrap_or(entry.replacements.len());
            entry.replacements.insert(
                place,
                Replacement {
                    of: index,
                    when,
                    limit: Box::new(limit),
                },
            );
        } else {
            entry.extras.push(Extra {
                when,
                limit: Box::new(limit),
            });
        }
    }

    /// A limit that only this org has.
    fn add_limit(&mut self, change: &Override) {
        let scope = change.scope.clone().unwrap_or_default();
        let scope = match change.who {
            Who::Org => scope,
            _ if change.scope.is_none() => Scope::of(change.who.dimension()),
            _ => scope.with(change.who.dimension()),
        };
        let pattern = change.pattern.as_ref().unwrap_or(&ANY_ROUTE);
        let window = change
            .values
            .window
            .map_or_else(String::new, |window| format!("-{window}"));
        let policy = Policy {
            id: beside_id(
                &format!("{}{window}", scope.to_string().replace('+', ".")),
                change,
            ),
            tier: None,
            scope: if scope.within_org() {
                scope
            } else {
                scope.with(Dimension::Org)
            },
            pattern: pattern.clone(),
            required_scope: change.required_scope.clone(),
            descriptors: Vec::new(),
            values: change.values.clone(),
            since: 0,
            shared_since: 0,
            line: change.line,
        };
        policy.values.check(change.line, &change.path, self.problems);
        let routes = self.routes_of(pattern, change.line);
        let limit = self.overridden(&policy, routes, change);
        let when = condition(change);
        self.entry.extras.push(Extra {
            when,
            limit: Box::new(limit),
        });
    }

    fn routes_of(&mut self, pattern: &Pattern, line: usize) -> Routes {
        self.common
            .routes_of(pattern, &mut self.routes, line, self.problems)
    }

    fn overridden(&self, policy: &Policy, routes: Routes, change: &Override) -> Limit {
        let mut limit = Limit::new(policy, routes, self.common.seed);
        limit.origin.overridden = Some(Box::new(OverrideNote {
            line: change.line,
            who: change.who.to_string().into(),
            reason: change.reason.as_deref().map(Into::into),
            expires: change.expires,
        }));
        limit
    }
}

static ANY_ROUTE: Pattern = Pattern::Any;

enum Pick {
    /// This policy.
    Policy(u32),
    /// A policy that is not for the org's tier.
    Inert,
    /// None: it makes a limit of its own.
    New,
}

/// What an override makes of a policy, and whether that stands in for it or beside it.
fn changed(base: &Policy, change: &Override) -> (Policy, bool) {
    let narrower_route = change
        .pattern
        .as_ref()
        .filter(|pattern| **pattern != base.pattern);
    let mut policy = base.clone();
    policy.values = change.values.over(&base.values);
    if base.values.burst.is_some() && change.values.burst.is_none() && change.values.algorithm.is_some() {
        policy.values.burst = None;
    }
    let replaces = narrower_route.is_none() && replaces(&base.scope, &change.who);
    if !replaces || !base.scope.within_org() {
        // Counted apart: by whom it is for, under an id that tells it from the policy's own.
        policy.scope = base.scope.with(change.who.dimension());
    }
    if !replaces {
        policy.id = beside_id(&base.id, change);
    }
    if let Some(pattern) = narrower_route {
        policy.pattern = pattern.clone();
    }
    (policy, replaces)
}

/// Whether values for `who` stand in for those of a limit of this scope. Where `who` is narrower than what
/// is counted together, they are a cap of its own beside the limit instead, since a narrower limit only
/// tightens; so it is with an org against limits that protect the service from all orgs.
fn replaces(scope: &Scope, who: &Who) -> bool {
    let has = |dimension: &Dimension| scope.dimensions().contains(dimension);
    match who {
        Who::Org => !has(&Dimension::Global) && (scope.within_org() || !has(&Dimension::Endpoint)),
        Who::App(_) => has(&Dimension::App) || has(&Dimension::Key),
        Who::User(_) => has(&Dimension::User),
        Who::Key(_) => has(&Dimension::Key),
    }
}

fn rank(who: &Who) -> u8 {
    match who {
        Who::Org => 0,
        Who::App(_) => 1,
        Who::User(_) => 2,
        Who::Key(_) => 3,
    }
}

fn condition(change: &Override) -> Condition {
    Condition {
        who: change.who.clone(),
        expires: change.expires,
    }
}

/// The id of a limit that an override made: the base's, and whom and what it is for.
fn beside_id(base: &str, change: &Override) -> String {
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
