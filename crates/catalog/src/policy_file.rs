//! A policy file: its lists, and whether what they name is there.

use std::collections::{HashMap, HashSet};

use tollgate_core::KeySeed;

use crate::document::{Fields, Problems, read_yaml};
use crate::model::{DEFAULT_TIER, EndpointClass, Org, Override, Policy, PolicySet, read_tier};
use crate::snapshot::Snapshot;

/// What a policy file may have.
pub(crate) const LISTS: [&str; 5] = ["tiers", "orgs", "endpointClasses", "policies", "overrides"];

/// Something of a list: where it stands, and what it is if nothing is wrong with it.
type Item<'n, T> = (Fields<'n>, Option<T>);

/// The lists whose items name others.
struct Lists<'n> {
    orgs: Vec<Item<'n, Org>>,
    policies: Vec<Item<'n, Policy>>,
    overrides: Vec<Item<'n, Override>>,
}

/// Reads a policy file, noting every problem. What refers to something else in the file is checked too. Overrides find
/// their policies when the set is compiled, since the catalogue may have more of them than the file; of a file that is not
/// taken as it is, what is right is compiled all the same, so that all that is wrong with it is told at once.
pub fn parse_policy_set(text: &str) -> Result<PolicySet, Problems> {
    let mut problems = Problems::default();
    let root = read_yaml(text, &mut problems);
    let fields = root.as_ref().and_then(|root| Fields::of(root, "", &mut problems));
    let Some(mut fields) = fields else {
        return Err(problems);
    };
    // More likely a file that is about to be written, or of which all is commented out, than a wish for no limits.
    if fields.is_empty() {
        let message = "the file says nothing; `policies: []` says that nothing is limited";
        problems.add(fields.line, "", message);
    }
    let declares_tiers = fields.has("tiers");
    let tiers: Vec<String> = good(read_each(&mut fields, "tiers", &mut problems, read_tier));
    let classes = read_each(&mut fields, "endpointClasses", &mut problems, EndpointClass::read);
    let classes: Vec<EndpointClass> = good(classes);
    let mut lists = Lists {
        orgs: read_each(&mut fields, "orgs", &mut problems, Org::read),
        policies: read_each(&mut fields, "policies", &mut problems, Policy::read),
        overrides: read_each(&mut fields, "overrides", &mut problems, Override::read),
    };
    fields.finish(&mut problems);
    lists.check_repeats(&mut problems);
    lists.check_classes(&classes, &mut problems);
    if declares_tiers {
        lists.check_tiers(&tiers, &mut problems);
    }
    let is_right = problems.0.is_empty();
    // With a list that can't be read, or is called by another name, nobody knows what there is.
    if problems.0.iter().any(|problem| !problem.field.contains('[')) {
        lists.overrides.clear();
    } else if !is_right {
        lists.check_overrides(&mut problems);
    }
    lists.keep_what_is_right(&problems);
    let set = PolicySet {
        tiers,
        orgs: good(lists.orgs),
        endpoint_classes: classes,
        policies: good(lists.policies),
        overrides: good(lists.overrides),
        rollout: None,
        pasts: Vec::new(),
    };
    if is_right {
        return Ok(set);
    }
    // Nothing is counted by this snapshot: any seed will do.
    if let Err(more) = Snapshot::compile(&set, KeySeed::new(0, 0), None) {
        problems.0.extend(more.0);
    }
    problems.sorted()?;
    Ok(set)
}

fn read_each<'n, T>(
    fields: &mut Fields<'n>,
    name: &'static str,
    problems: &mut Problems,
    read: impl Fn(Fields<'_>, &mut Problems) -> Option<T>,
) -> Vec<Item<'n, T>> {
    let mut all = Vec::new();
    for (path, node) in fields.list(name, problems) {
        if let Some(fields) = Fields::of(node, &path, problems) {
            let item = read(fields.clone(), problems);
            all.push((fields, item));
        }
    }
    all
}

/// What nothing is wrong with.
fn good<T>(items: Vec<Item<'_, T>>) -> Vec<T> {
    items.into_iter().filter_map(|(_, item)| item).collect()
}

impl Lists<'_> {
    fn check_repeats(&self, problems: &mut Problems) {
        let mut seen = HashMap::new();
        for (at, policy) in &self.policies {
            let Some(policy) = policy else { continue };
            if let Some(line) = seen.insert(policy.id.as_str(), policy.line) {
                let message = format!("the id `{}` is taken by the policy on line {line}", policy.id);
                at.problem(problems, "id", message);
            }
        }
        let mut seen = HashMap::new();
        for (at, org) in &self.orgs {
            let Some(org) = org else { continue };
            if let Some(line) = seen.insert(org.id.as_str(), org.line) {
                let message = format!("the org `{}` is on line {line} already", org.id);
                at.problem(problems, "orgId", message);
            }
        }
    }

    fn check_tiers(&self, tiers: &[String], problems: &mut Problems) {
        let mut known: HashSet<&str> = tiers.iter().map(String::as_str).collect();
        known.insert(DEFAULT_TIER);
        let of_orgs = self.orgs.iter().map(|(at, _)| (at, "tier"));
        let of_policies = self.policies.iter().map(|(at, _)| (at, "orgTier"));
        for (at, field) in of_orgs.chain(of_policies) {
            let Some(tier) = at.written(field) else { continue };
            // That is every tier; where it can't stand it was refused already.
            if tier != "*" && !known.contains(tier) {
                let near = problems.suggestion(tier, known.iter().copied());
                at.problem(problems, field, format!("there is no tier `{tier}`{near}"));
            }
        }
    }

    /// Notes overrides for policies that the file does not have, even if something is wrong with those it has.
    fn check_overrides(&self, problems: &mut Problems) {
        let ids = self.policies.iter().map(|(at, policy)| {
            let id = policy.as_ref().map(|policy| policy.id.as_str());
            id.or_else(|| at.written("id"))
        });
        // One whose id can't be told may be the one that is meant.
        let Some(known) = ids.collect::<Option<HashSet<&str>>>() else {
            return;
        };
        for (at, _) in &self.overrides {
            let Some(id) = at.written("policyId") else {
                continue;
            };
            if !id.is_empty() && !known.contains(id) {
                let near = problems.suggestion(id, known.iter().copied());
                at.problem(problems, "policyId", format!("there is no policy `{id}`{near}"));
            }
        }
    }

    /// Leaves out what something is wrong with, and what can't be judged for it: whatever names it, or may do so.
    fn keep_what_is_right(&mut self, problems: &Problems) {
        let faults = Faults::of(problems);
        let orgs = faults.names(&self.orgs, "orgId");
        let policies = faults.names(&self.policies, "id");
        let is_org = |id: &str| orgs.as_ref().is_some_and(|faulty| !faulty.contains(id));
        let is_policy = |id: &str| policies.as_ref().is_some_and(|faulty| !faulty.contains(id));
        let all_are_right = policies.as_ref().is_some_and(HashSet::is_empty);
        self.orgs.retain(|(at, _)| !faults.include(at));
        self.policies.retain(|(at, _)| !faults.include(at));
        for policy in self.policies.iter_mut().filter_map(|(_, policy)| policy.as_mut()) {
            policy.replaces.retain(|id| is_policy(id));
        }
        self.overrides.retain(|(at, change)| {
            let change = change.as_ref().filter(|change| is_org(&change.org));
            let is_judged = |change: &Override| change.policy.as_deref().map_or(all_are_right, is_policy);
            !faults.include(at) && change.is_some_and(is_judged)
        });
    }

    fn check_classes(&self, classes: &[EndpointClass], problems: &mut Problems) {
        let known: HashSet<&str> = classes.iter().map(|class| class.class.as_str()).collect();
        let of_policies = self.policies.iter().map(|(at, _)| at);
        let of_overrides = self.overrides.iter().map(|(at, _)| at);
        for at in of_policies.chain(of_overrides) {
            let pattern = at.written("endpointPattern");
            let Some(class) = pattern.and_then(|pattern| pattern.strip_prefix("class:")) else {
                continue;
            };
            if !class.is_empty() && !known.contains(class) {
                let near = problems.suggestion(class, known.iter().copied());
                let message = format!("there is no endpoint class `{class}`{near}");
                at.problem(problems, "endpointPattern", message);
            }
        }
    }
}

/// The items of a file that something is wrong with, by their paths.
struct Faults<'p>(HashSet<&'p str>);

impl<'p> Faults<'p> {
    fn of(problems: &'p Problems) -> Self {
        let fields = problems.0.iter().map(|problem| problem.field.as_str());
        let items = fields.filter_map(|field| field.find(']').map(|end| &field[..=end]));
        Self(items.collect())
    }

    fn include(&self, item: &Fields<'_>) -> bool {
        self.0.contains(item.path.as_str())
    }

    /// What those of a list are called; `None` if that can't be told of one.
    fn names<'n, T>(&self, list: &[Item<'n, T>], field: &str) -> Option<HashSet<&'n str>> {
        let faulty = list.iter().filter(|(at, _)| self.include(at));
        faulty.map(|(at, _)| at.written(field)).collect()
    }
}
