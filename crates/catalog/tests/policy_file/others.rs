//! Every field of orgs, tiers, classes and overrides.

use super::fields::assert_problem;

#[test]
fn each_field_of_an_org_says_what_is_wrong_with_it() {
    for (fields, said) in [
        ("tier: Gold", "orgId: is missing"),
        ("orgId: \"\"", "orgId: must not be empty"),
        ("orgId: \"a\\tb\"", "orgId: must not contain control characters"),
        ("orgId: a, tier: []", "tier: must be text, not a list"),
        (
            "orgId: a, timezone: Europe/Berln",
            "timezone: `Europe/Berln` is not a time zone, such as Europe/Berlin; did you mean `Europe/Berlin`?",
        ),
        ("orgId: a, timezone: org", "timezone: `org` is not a time zone"),
        (
            "orgId: a, billingAnchor: 2024-02-30",
            "billingAnchor: `2024-02-30` is neither a date such as 2024-01-31 nor an instant",
        ),
        ("orgId: a, billingAnchor: 31", "billingAnchor: `31` is neither"),
        (
            "orgId: a, teir: Gold",
            "teir: is not a known field; did you mean `tier`?",
        ),
    ] {
        assert_problem(
            &format!("orgs:\n  - {{{fields}}}\n"),
            &format!("line 2: orgs[0].{said}"),
        );
    }
    let long = "x".repeat(257);
    assert_problem(
        &format!("orgs:\n  - {{orgId: {long}}}\n"),
        "line 2: orgs[0].orgId: must be at most 256 bytes",
    );
}

#[test]
fn each_field_of_tiers_and_classes_says_what_is_wrong_with_it() {
    for (file, said) in [
        (
            "tiers:\n  - {tier: \"*\"}\n",
            "line 2: tiers[0].tier: `*` stands for every tier",
        ),
        ("tiers:\n  - {}\n", "line 2: tiers[0].tier: is missing"),
        (
            "tiers:\n  - Gold\n",
            "line 2: tiers[0]: must be a mapping, not a single value",
        ),
        (
            "tiers:\n  - {tier: Gold, price: 5}\n",
            "line 2: tiers[0].price: is not a known field",
        ),
        (
            "tiers: Gold\n",
            "line 1: tiers: must be a list, not a single value",
        ),
        (
            "endpointClasses:\n  - {class: heavy}\n",
            "line 2: endpointClasses[0].pattern: is missing",
        ),
        (
            "endpointClasses:\n  - {pattern: /a}\n",
            "line 2: endpointClasses[0].class: is missing",
        ),
        (
            "endpointClasses:\n  - {pattern: \"class:heavy\", class: light}\n",
            "line 2: endpointClasses[0].pattern: a class is made of routes, not of classes",
        ),
        (
            "endpointClasses:\n  - {pattern: a, class: light}\n",
            "line 2: endpointClasses[0].pattern: `a` must be a method",
        ),
        (
            "policies: {id: p}\n",
            "line 1: policies: must be a list, not a mapping",
        ),
        (
            "policies:\n  - [p]\n",
            "line 2: policies[0]: must be a mapping, not a list",
        ),
        (
            "polices: []\n",
            "line 1: polices: is not a known field; did you mean `policies`?",
        ),
        ("- a\n", "line 1: must be a mapping, not a list"),
        ("just text\n", "line 1: must be a mapping, not a single value"),
    ] {
        assert_problem(file, said);
    }
}

#[test]
fn each_field_of_an_override_says_what_is_wrong_with_it() {
    for (fields, said) in [
        ("policyId: p, limit: 5", ".orgId: is missing"),
        ("orgId: \"\", policyId: p", ".orgId: must not be empty"),
        (
            "orgId: a, appId: b, keyId: c, policyId: p",
            ": names more than one of appId, keyId and userId",
        ),
        (
            "orgId: a, policyId: p, limit: x",
            ".limit: must be a whole number",
        ),
        (
            "orgId: a, policyId: p, scope: teams",
            ".scope: `teams` is not one of",
        ),
        (
            "orgId: a, policyId: p, expiresAt: tomorrow",
            ".expiresAt: `tomorrow` is not an instant such as 2024-07-15T00:00:00Z",
        ),
        (
            "orgId: a, policyId: p, expiresAt: 2024-07-15",
            ".expiresAt: `2024-07-15` is not an instant",
        ),
        (
            "orgId: a, policyId: p, expires: 2024-07-15T00:00:00Z",
            ".expires: is not a known field; did you mean `expiresAt`?",
        ),
        (
            "orgId: a, policyId: p, orgTier: Gold",
            ".orgTier: is not a known field",
        ),
        (
            "orgId: a, policyId: p, match: {a: b}",
            ".match: is not a known field",
        ),
    ] {
        let file = format!("policies:\n  - {{id: p, limit: 5, window: 1m}}\noverrides:\n  - {{{fields}}}\n");
        assert_problem(&file, &format!("line 4: overrides[0]{said}"));
    }
}
