//! Files with one field a line: each problem names the line of its own field.

use crate::common::problem;

/// A policy of some fields, a line each, from the third line on: the list is on the second.
fn policy(fields: &[&str]) -> String {
    format!("# ours\npolicies:\n  - {}\n", fields.join("\n    "))
}

#[test]
fn values_that_contradict_each_other_are_told_with_the_line_of_the_one_at_fault() {
    for (fields, said) in [
        (
            ["algorithm: quota", "limit: 5", "window: 1s", "unit: a"],
            "line 5: policies[0].window: a quota's window is",
        ),
        (
            ["window: day", "algorithm: token_bucket", "limit: 5", "unit: a"],
            "line 3: policies[0].window: only a quota has a calendar window",
        ),
        (
            ["id: p", "limit: 5", "window: 1s", "timezone: UTC"],
            "line 6: policies[0].timezone: means nothing to token_bucket",
        ),
        (
            ["algorithm: fixed_window", "burst: 5", "limit: 5", "window: 1s"],
            "line 4: policies[0].burst: means nothing to fixed_window",
        ),
        (
            ["limit: 5", "window: 1s", "anchor: first", "unit: a"],
            "line 5: policies[0].anchor: means nothing to token_bucket",
        ),
        (
            [
                "id: p",
                "window: 1s",
                "algorithm: sliding_window_log",
                "limit: 100001",
            ],
            "line 6: policies[0].limit: a sliding_window_log remembers each request",
        ),
        (
            ["id: p", "window: 1s", "limit: 5", "endpointPattern: class:heavy"],
            "line 6: policies[0].endpointPattern: there is no endpoint class `heavy`",
        ),
        (
            ["id: p", "window: 1s", "limit: 5", "limit: 5"],
            "line 6: policies[0].limit: is given twice",
        ),
    ] {
        let told = problem(&policy(&fields));
        assert!(told.starts_with(said), "{told}\nand not\n{said}");
    }
}

#[test]
fn tiers_and_ids_that_are_wrong_are_told_with_the_line_of_their_own() {
    let tiers = "tiers: [{tier: Gold}]\n";
    for (file, said) in [
        (
            format!("{tiers}orgs:\n  - orgId: a\n    timezone: UTC\n    tier: Silver\n"),
            "line 5: orgs[0].tier: there is no tier `Silver`",
        ),
        (
            format!("{tiers}policies:\n  - id: a\n    limit: 5\n    window: 1s\n    orgTier: Silver\n"),
            "line 6: policies[0].orgTier: there is no tier `Silver`",
        ),
        (
            "orgs:\n  - orgId: a\n  - tier: b\n    orgId: a\n".to_owned(),
            "line 4: orgs[1].orgId: the org `a` is on line 2 already",
        ),
        (
            "policies:\n  - {id: a, limit: 5, window: 1s}\n  - limit: 5\n    window: 1s\n    id: a\n"
                .to_owned(),
            "line 5: policies[1].id: the id `a` is taken by the policy on line 2",
        ),
    ] {
        assert_eq!(problem(&file), said);
    }
}

const POLICIES: &str = "policies: [{id: a, limit: 5, window: 1s, algorithm: fixed_window}, \
    {id: b, limit: 5, window: day}, {id: c, limit: 9, window: day}]\n";

#[test]
fn an_override_that_does_not_fit_is_told_with_the_line_of_what_does_not() {
    for (fields, said) in [
        (
            ["limit: 1", "policyId: d"],
            "line 5: overrides[0].policyId: there is no policy `d`",
        ),
        (
            ["policyId: a", "scope: ip"],
            "line 5: overrides[0].scope: the policy `a` has the scope org",
        ),
        (
            ["policyId: a", "requiredScope: read"],
            "line 5: overrides[0].requiredScope: the policy `a` has the requiredScope none",
        ),
        (
            ["policyId: a", "window: day"],
            "line 5: overrides[0].window: only a quota has a calendar window",
        ),
        (
            ["policyId: b", "timezone: Asia/Tokyo"],
            "line 5: overrides[0].timezone: `b` shares its count with the policy `c`",
        ),
        (
            ["scope: ip", "limit: 1"],
            "line 3: overrides[0]: fits none of the policies",
        ),
    ] {
        let file = format!(
            "{POLICIES}overrides:\n  - orgId: acme\n    {}\n",
            fields.join("\n    ")
        );
        let told = problem(&file);
        assert!(told.starts_with(said), "{told}\nand not\n{said}");
    }
}

#[test]
fn policies_that_share_a_count_are_told_with_the_line_of_what_differs() {
    let file = |field: &str| {
        let second = format!("  - id: b\n    counter: c\n    {field}\n    unit: x\n");
        format!("policies:\n  - {{id: a, counter: c, limit: 5, window: day, unit: x}}\n{second}")
    };
    let said = problem(&file("limit: 6\n    window: day\n    timezone: org"));
    assert!(
        said.starts_with("line 7: policies (b).timezone: shares"),
        "{said}"
    );
    let said = problem(&file("limit: 6\n    window: 1m").replace("day", "1m"));
    assert!(said.starts_with("line 5: policies (b).limit: shares"), "{said}");
}

#[test]
fn what_an_alias_stands_for_is_told_with_the_line_of_the_alias() {
    let file = "policies:\n  - id: a\n    limit: 5\n    window: &w 1m\n  - id: b\n    algorithm: quota\n    limit: 5\n    window: *w\n";
    let said = problem(file);
    assert!(
        said.starts_with("line 8: policies[1].window: a quota's"),
        "{said}"
    );
}
