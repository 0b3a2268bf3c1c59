//! A file that is only half right is told everything that is wrong with it, and none of it is taken.

use tollgate_catalog::parse_policy_set;

use crate::common::compiled;

#[test]
fn every_problem_is_told_in_the_order_of_the_lines() {
    let file = "overrides:
  - {orgId: acme, limit: -1}
policies:
  - {id: good, limit: 5, window: 1m}
  - {id: good, limit: x, window: y, mode: z}
  - {id: good, limit: 5, window: 1m}
orgs:
  - {tier: Gold}
  - {orgId: acme}
tears: []
";
    assert_eq!(
        places(file),
        [
            "2 overrides[0].limit",
            "5 policies[1].limit",
            "5 policies[1].window",
            "5 policies[1].mode",
            "6 policies[2].id",
            "8 orgs[0].orgId",
            "10 tears"
        ]
    );
}

#[test]
fn every_override_that_finds_no_policy_is_told() {
    let file = "policies:
  - {id: a, limit: 5, window: 1m}
  - {id: b, limit: 5, window: 1m}
overrides:
  - {orgId: x, policyId: c, limit: 1}
  - {orgId: x, policyId: a, limit: 1}
  - {orgId: x, limit: 1}
  - {orgId: x, scope: ip, limit: 1}
";
    let Err(problems) = compiled(file) else {
        panic!("it is taken for right");
    };
    let lines: Vec<usize> = problems.0.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [5, 7, 8], "{problems}");
}

/// The places of all problems of a file, as `line path`.
fn places(file: &str) -> Vec<String> {
    let Err(problems) = parse_policy_set(file) else {
        panic!("it is taken for right");
    };
    let places = problems.0.iter();
    places
        .map(|problem| format!("{} {}", problem.line, problem.field))
        .collect()
}

#[test]
fn fields_that_are_given_twice_do_not_hide_other_problems() {
    let file = "policies:
  - id: a
    id: b
    limit: many
    window: 1m
  - id: c
    limit: 5
    window: 1m
    window: 1h
polices: []
";
    assert_eq!(
        places(file),
        [
            "3 policies[0].id",
            "4 policies[0].limit",
            "9 policies[1].window",
            "10 polices"
        ]
    );
}

#[test]
fn what_names_something_is_looked_at_whatever_else_is_wrong() {
    let file = "tiers: [{tier: Gold}]
policies:
  - {id: a, limit: many, window: 1m}
  - {id: b, limit: 5, window: 1m, orgTier: Glod, endpointPattern: \"class:x\", burst: -1}
overrides:
  - {orgId: o, policyId: a, limit: 1}
  - {orgId: o, policyId: c, limit: 1}
  - {orgId: o, policyId: d, limit: -1}
";
    assert_eq!(
        places(file),
        [
            "3 policies[0].limit",
            "4 policies[1].burst",
            "4 policies[1].endpointPattern",
            "4 policies[1].orgTier",
            "7 overrides[1].policyId",
            "8 overrides[2].limit",
            "8 overrides[2].policyId"
        ]
    );
    // A policy whose id can't be told may be the one that is meant.
    let file =
        "policies:\n  - {limit: many, window: 1m}\noverrides:\n  - {orgId: o, policyId: c, limit: 1}\n";
    assert_eq!(places(file), ["2 policies[0].limit"]);
}

#[test]
fn what_does_not_fit_together_is_told_at_once_with_what_can_not_be_read() {
    let file = "tiers: [{tier: Gold}]
orgs:
  - {orgId: o}
  - {orgId: broken, tier: 7, colour: red}
policies:
  - {id: fast, limit: 5, window: 1m, orgTier: Gold}
  - {id: slow, limit: 5, window: 1h}
  - {id: bad, limit: many, window: 1m}
  - {id: next, limit: 5, window: 1m, replaces: [slwo, bad]}
overrides:
  - {orgId: o, policyId: slow}
  - {orgId: o, policyId: slow, scope: ip, limit: 1}
  - {orgId: o, policyId: bad, scope: ip, limit: 1}
  - {orgId: o, limit: 1}
  - {orgId: broken, policyId: slow}
";
    assert_eq!(
        places(file),
        [
            "4 orgs[1].colour",
            "4 orgs[1].tier",
            "8 policies[2].limit",
            "9 policies (next).replaces",
            "11 overrides[0]",
            "12 overrides[1].scope",
        ]
    );
    // The one without an id may be for any of the policies, once they are all right.
    let file = file.replace("many", "5");
    assert!(
        places(&file).contains(&"14 overrides[3]".to_owned()),
        "{:?}",
        places(&file)
    );
    // Nor is anything said of what a list would have had that can't be read, or has another name.
    for policies in ["polices: [{id: p, limit: 5, window: 1m}]", "policies: p"] {
        let file = format!("{policies}\noverrides: [{{orgId: o, policyId: p, limit: 1}}]\n");
        assert_eq!(places(&file).len(), 1, "{file}");
    }
}

#[test]
fn a_problem_shows_its_place_and_then_what_is_wrong() {
    let Err(problems) = parse_policy_set("policies:\n\n  - id: p\n    window: 1m\n    limit:\n      - 5\n")
    else {
        panic!("it is taken for right");
    };
    assert_eq!(
        problems.to_string(),
        "line 6: policies[0].limit: must be a whole number from 0 to 999999999999999"
    );
}
