//! Every field of a policy by itself: what it takes, and what it does not.

use crate::common::{problem, snapshot};

/// A file whose third line is a policy with one more field.
pub fn policy(field: &str) -> String {
    format!(
        "policies:\n  - {{id: first, limit: 1, window: 1m}}\n  - {{id: p, limit: 5, window: 1m, {field}}}\n"
    )
}

/// A policy of just these fields, on the second line.
pub fn bare(fields: &str) -> String {
    format!("policies:\n  - {{{fields}}}\n")
}

pub fn assert_problem(file: &str, expected: &str) {
    let said = problem(file);
    assert!(said.starts_with(expected), "{said}\nand not\n{expected}");
}

#[test]
fn whom_a_policy_is_for_says_what_is_wrong_with_it() {
    for (field, said) in [
        ("orgTier: \"\"", "orgTier: must not be empty"),
        ("orgTier: [Gold]", "orgTier: must be text, not a list"),
        (
            "scope: team",
            "scope: `team` is not one of global, endpoint, ip, org, app, key, user, descriptor:NAME",
        ),
        (
            "scope: Org",
            "scope: `Org` is not one of global, endpoint, ip, org, app, key, user, descriptor:NAME; did you mean `org`?",
        ),
        (
            "scope: usr",
            "scope: `usr` is not one of global, endpoint, ip, org, app, key, user, descriptor:NAME; did you mean `user`?",
        ),
        (
            "scope: \"descriptor:\"",
            "scope: the descriptor's name must not be empty",
        ),
        ("scope: []", "scope: must name at least one dimension"),
        ("scope: [org, org]", "scope: names org twice"),
        ("scope: org+org", "scope: names org twice"),
        (
            "scope: [global, ip]",
            "scope: global already counts everything; leave the others out",
        ),
        ("scope: {a: b}", "scope: must be a name or a list of names"),
        ("scope: [[org]]", "scope: must be a list of names"),
        (
            "endpointPattern: records",
            "endpointPattern: `records` must be a method and a path",
        ),
        (
            "endpointPattern: \"GET records\"",
            "endpointPattern: `GET records` must have a path that begins with `/`",
        ),
        (
            "endpointPattern: /a*",
            "endpointPattern: `/a*` has the segment `a*`",
        ),
        (
            "endpointPattern: /*/b",
            "endpointPattern: `/*/b` has the segment `*`",
        ),
        (
            "endpointPattern: \"/{}\"",
            "endpointPattern: `/{}` has the segment `{}`",
        ),
        ("endpointPattern: /%zz", "endpointPattern: `/%zz` has a `%`"),
        (
            "endpointPattern: \"class:\"",
            "endpointPattern: the class's name must not be empty",
        ),
        ("requiredScope: {}", "requiredScope: must be text, not a mapping"),
        (
            "match: region",
            "match: must be a mapping of names to values, not a single value",
        ),
        ("match: {region: [eu]}", "match.region: must be text"),
        ("match: {region: \"\"}", "match.region: must not be empty"),
    ] {
        assert_problem(&policy(field), &format!("line 3: policies[1].{said}"));
    }
}

#[test]
fn how_a_policy_counts_says_what_is_wrong_with_it() {
    for (field, said) in [
        (
            "algorithm: token_buckets",
            "algorithm: `token_buckets` is not one of token_bucket, leaky_bucket, fixed_window, \
             sliding_window_log, sliding_window_counter, quota; did you mean `token_bucket`?",
        ),
        (
            "burst: 1.5",
            "burst: must be a whole number from 0 to 999999999999999",
        ),
        ("burst: -1", "burst: must be a whole number"),
        ("burst: \"5\"", "burst: must be a whole number"),
        ("burst: 1000000000000000", "burst: must be a whole number"),
        (
            "anchor: noon, algorithm: fixed_window",
            "anchor: `noon` is not one of epoch, first",
        ),
        (
            "anchor: first",
            "anchor: means nothing to token_bucket; only fixed_window has one",
        ),
        (
            "timezone: UTC",
            "timezone: means nothing to token_bucket; only quota has one",
        ),
        (
            "burst: 5, algorithm: fixed_window",
            "burst: means nothing to fixed_window; only buckets have one",
        ),
        (
            "counter: \"a\\nb\"",
            "counter: must not contain control characters",
        ),
        ("unit: \"\"", "unit: must not be empty"),
        (
            "failMode: opened",
            "failMode: `opened` is not one of open, closed, local; did you mean `open`?",
        ),
        (
            "mode: enforced",
            "mode: `enforced` is not one of enforce, shadow, soft, off; did you mean `enforce`?",
        ),
        (
            "accuracy: 0%",
            "accuracy: `0%` is neither exact nor a percentage such as 5%",
        ),
        ("accuracy: 101%", "accuracy: `101%` is neither"),
        ("accuracy: 5", "accuracy: `5` is neither"),
        ("accuracy: 1.234%", "accuracy: `1.234%` is neither"),
        ("accuracy: rough", "accuracy: `rough` is neither"),
        ("resetJitter: soon", "resetJitter: `soon` is not a length of time"),
        ("expose: maybe", "expose: `maybe` is not one of true, false"),
        (
            "ipv4Prefix: 33",
            "ipv4Prefix: must be a whole number from 0 to 32",
        ),
        (
            "ipv6Prefix: 129",
            "ipv6Prefix: must be a whole number from 0 to 128",
        ),
        ("limt: 5", "limt: is not a known field; did you mean `limit`?"),
        ("window_size: 5", "window_size: is not a known field"),
    ] {
        assert_problem(&policy(field), &format!("line 3: policies[1].{said}"));
    }
}

#[test]
fn what_is_planned_but_not_there_yet_is_not_silently_ignored() {
    for field in [
        "softThreshold: 0.8",
        "maxDelayMs: 100",
        "phaseIn: 1h",
        "adaptive: {source: db}",
        "graphqlCosts: {}",
    ] {
        let name = field.split(':').next().unwrap_or_default();
        assert_problem(
            &policy(field),
            &format!("line 3: policies[1].{name}: is not available in this version"),
        );
    }
    assert_problem(
        "orgs:\n  - {orgId: acme, adaptiveWeight: 2}\n",
        "line 2: orgs[0].adaptiveWeight: is not available in this version",
    );
}

#[test]
fn every_field_takes_what_it_should() {
    for field in [
        "orgTier: \"*\"",
        "scope: \"descriptor:region\"",
        "scope: [org, ip, \"descriptor:x\"]",
        "scope: [endpoint, user]",
        "endpointPattern: \"delete /users/{id}/*\"",
        "endpointPattern: /*",
        "requiredScope: write",
        "match: {region: \"eu-*\", plan: 5}",
        "burst: 999999999999999",
        "burst: 0",
        "algorithm: leaky_bucket, burst: 5",
        "algorithm: fixed_window, anchor: epoch",
        "counter: shared",
        "unit: tokens",
        "failMode: closed",
        "mode: off",
        "accuracy: exact",
        "accuracy: 0.01%",
        "accuracy: 100%",
        "resetJitter: 500ms",
        "expose: false",
        "ipv4Prefix: 24, ipv6Prefix: 48",
        "algorithm: ~, burst: null",
    ] {
        snapshot(&policy(field));
    }
    for fields in [
        "limit: 0, window: 1ms",
        "limit: 999999999999999, window: 366d",
        "limit: 100000, window: 1s, algorithm: sliding_window_log",
        "limit: 5, window: billing_month, timezone: org",
        "limit: 5, window: week, timezone: Asia/Kathmandu, algorithm: quota",
    ] {
        snapshot(&bare(fields));
    }
    snapshot("orgs:\n  - {orgId: a, tier: t, timezone: America/New_York, billingAnchor: 2024-01-31}\n");
    snapshot("orgs:\n  - {orgId: a, billingAnchor: \"2024-01-31T09:00:00+02:00\"}\n");
}
