//! A policy file's lists.

use std::collections::{HashMap, HashSet};

use super::fields::Fields;
use super::problem::{Problems, suggestion};
use super::yaml::parse_yaml;
use crate::model::{DEFAULT_TIER, EndpointClass, Org, Override, Policy, PolicySet, read_tier};
use crate::route::Pattern;

/// Reads a policy file, noting every problem. What refers to something else in the file is checked too;
/// overrides find their policies when the set is compiled.
pub fn parse_policy_set(text: &str) -> Result<PolicySet, Problems> {
    let root = parse_yaml(text)?;
    let mut problems = Problems::default();
    let Some(mut fields) = Fields::of(&root, "", &mut problems) else {
        return Err(problems);
    };
    let declares_tiers = fields.has("tiers");
    let set = PolicySet {
        tiers: read_each(&mut fields, "tiers", &mut problems, read_tier),
        orgs: read_each(&mut fields, "orgs", &mut problems, Org::read),
        endpoint_classes: read_each(&mut fields, "endpointClasses", &mut problems, EndpointClass::read),
        policies: read_each(&mut fields, "policies", &mut problems, Policy::read),
        overrides: read_each(&mut fields, "overrides", &mut problems, Override::read),
        rollout: None,
        pasts: Vec::new(),
    };
    fields.finish(&mut problems);
    check_repeats(&set, &mut problems);
    check_classes(&set, &mut problems);
    if declares_tiers {
        check_tiers(&set, &mut problems);
    }
    problems.sorted()?;
    Ok(set)
}

fn read_each<T>(
    fields: &mut Fields<'_>,
    name: &'static str,
    problems: &mut Problems,
    read: impl Fn(Fields<'_>, &mut Problems) -> Option<T>,
) -> Vec<T> {
    let mut all = Vec::new();
    for (path, node) in fields.list(name, problems) {
        if let Some(fields) = Fields::of(node, &path, problems) {
            all.extend(read(fields, problems));
        }
    }
    all
}

fn check_repeats(set: &PolicySet, problems: &mut Problems) {
    let mut seen = HashMap::new();
    for policy in &set.policies {
        if let Some(line) = seen.insert(policy.id.as_str(), policy.line) {
            let message = format!("the id `{}` is taken by the policy on line {line}", policy.id);
            problems.add(policy.line, "policies", message);
        }
    }
    let mut seen = HashMap::new();
    for org in &set.orgs {
        if let Some(line) = seen.insert(org.id.as_str(), org.line) {
            let message = format!("the org `{}` is on line {line} already", org.id);
            problems.add(org.line, "orgs", message);
        }
    }
}

fn check_tiers(set: &PolicySet, problems: &mut Problems) {
    let mut known: HashSet<&str> = set.tiers.iter().map(String::as_str).collect();
    known.insert(DEFAULT_TIER);
    let mut check = |tier: &str, line: usize, what: &str| {
        if !known.contains(tier) {
            let near = suggestion(tier, known.iter().copied());
            problems.add(line, what, format!("there is no tier `{tier}`{near}"));
        }
    };
    for org in &set.orgs {
        check(&org.tier, org.line, "orgs.tier");
    }
    for policy in &set.policies {
        if let Some(tier) = &policy.tier {
            check(tier, policy.line, "policies.orgTier");
        }
    }
}

fn check_classes(set: &PolicySet, problems: &mut Problems) {
    let known: HashSet<&str> = set
        .endpoint_classes
        .iter()
        .map(|class| class.class.as_str())
        .collect();
    let patterns = set.policies.iter().map(|policy| (&policy.pattern, policy.line));
    let overrides = set.overrides.iter();
    let overridden = overrides.filter_map(|o| o.pattern.as_ref().map(|pattern| (pattern, o.line)));
    for (pattern, line) in patterns.chain(overridden) {
        if let Pattern::Class(class) = pattern
            && !known.contains(class.as_str())
        {
            let near = suggestion(class, known.iter().copied());
            problems.add(
                line,
                "endpointPattern",
                format!("there is no endpoint class `{class}`{near}"),
            );
        }
    }
}
