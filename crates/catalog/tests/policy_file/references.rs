//! What one part of a file says of another: ids that repeat, names that nothing has.

use crate::common::{problem, snapshot};

#[test]
fn an_id_that_repeats_is_told_with_both_lines() {
    let said = problem(
        "policies:\n  - {id: p, limit: 1, window: 1m}\n  - {id: q, limit: 1, window: 1m}\n  - {id: p, limit: 2, window: 1h}\n",
    );
    assert_eq!(
        said,
        "line 4: policies[2].id: the id `p` is taken by the policy on line 2"
    );
    let said = problem("orgs:\n  - {orgId: acme}\n  - {orgId: Acme}\n  - {orgId: acme, tier: x}\n");
    assert_eq!(said, "line 4: orgs[2].orgId: the org `acme` is on line 2 already");
}

#[test]
fn policies_without_an_id_get_one_that_tells_them_apart() {
    let file = "policies:\n  - {limit: 1, window: 1m}\n  - {limit: 1, window: 1h}\n  - {limit: 1, window: 1m, scope: [org, ip]}\n  \
        - {limit: 1, window: day, orgTier: Gold, endpointPattern: \"POST /a b/{id}/*\"}\n";
    let snapshot = snapshot(file);
    let ids: Vec<&str> = snapshot.limits().iter().map(|limit| &*limit.id).collect();
    assert_eq!(
        ids,
        [
            "all-org-any-token_bucket-1m",
            "all-org-any-token_bucket-1h",
            "all-org.ip-any-token_bucket-1m",
            "Gold-org-POST.a.b.id.-quota-day-941a248b"
        ]
    );
    let said = problem("policies:\n  - {limit: 1, window: 1m}\n  - {limit: 2, window: 1m}\n");
    assert!(
        said.starts_with("line 3: policies[1].id: the id `all-org-any-token_bucket-1m` is taken"),
        "{said}"
    );
}

#[test]
fn tiers_that_are_listed_are_the_only_ones() {
    let said = problem("tiers: [{tier: Enterprise}]\norgs:\n  - {orgId: acme, tier: enterprise}\n");
    assert_eq!(
        said,
        "line 3: orgs[0].tier: there is no tier `enterprise`; did you mean `Enterprise`?"
    );
    let said = problem(
        "tiers: [{tier: Enterprise}]\npolicies:\n  - {id: p, orgTier: Silver, limit: 1, window: 1m}\n",
    );
    assert_eq!(said, "line 3: policies[0].orgTier: there is no tier `Silver`");
    snapshot("tiers: [{tier: Gold}]\norgs:\n  - {orgId: a, tier: default}\n  - {orgId: b, tier: Gold}\n");
    snapshot("orgs:\n  - {orgId: a, tier: anything}\n");
}

#[test]
fn an_org_is_of_one_tier_and_not_of_all() {
    for tiers in ["", "tiers: [{tier: Gold}]"] {
        let said = problem(&format!("{tiers}\norgs:\n  - {{orgId: a, tier: \"*\"}}\n"));
        assert_eq!(
            said,
            "line 3: orgs[0].tier: `*` stands for every tier and can't name one"
        );
    }
}

#[test]
fn what_a_policy_replaces_must_be_there() {
    let file = |replaced: &str| {
        format!(
            "policies:\n  - {{id: login, limit: 1, window: 1m}}\n  - id: strict-login\n    limit: 1\n    window: 1m\n    \
             replaces: [{replaced}]\n"
        )
    };
    assert_eq!(
        problem(&file("login, logni")),
        "line 6: policies (strict-login).replaces: there is no policy `logni`; did you mean `login`?"
    );
    snapshot(&file("login"));
}

#[test]
fn a_class_must_have_routes() {
    let said = problem(
        "endpointClasses: [{pattern: /a, class: heavy}]\npolicies:\n  - {id: p, endpointPattern: \"class:hevy\", limit: 1, window: 1m}\n",
    );
    assert_eq!(
        said,
        "line 3: policies[0].endpointPattern: there is no endpoint class `hevy`; did you mean `heavy`?"
    );
    let said =
        problem("overrides:\n  - {orgId: acme, endpointPattern: \"class:heavy\", limit: 1, window: 1m}\n");
    assert_eq!(
        said,
        "line 2: overrides[0].endpointPattern: there is no endpoint class `heavy`"
    );
}

#[test]
fn buckets_that_share_a_counter_must_refill_alike() {
    let file = |limit: u64, tiers: [&str; 2]| {
        format!(
            "policies:\n  - {{id: a, orgTier: {}, limit: 5, window: 1m, counter: c}}\n  \
             - {{id: b, orgTier: {}, limit: {limit}, window: 1m, counter: c}}\n",
            tiers[0], tiers[1]
        )
    };
    let said = problem(&file(6, ["\"*\"", "\"*\""]));
    assert!(
        said.starts_with("line 3: policies (b).limit: shares its counter with the policy `a`"),
        "{said}"
    );
    snapshot(&file(5, ["\"*\"", "\"*\""]));
    snapshot(&file(6, ["Gold", "Silver"]));
    assert!(problem(&file(6, ["Gold", "\"*\""])).contains("shares its counter"));
    // Not within an org, so that orgs of both tiers are in one bucket.
    let across = file(6, ["Gold", "Silver"]).replace("window", "scope: ip, window");
    assert!(problem(&across).contains("shares its counter with the policy `a`"));
}

/// The smaller of two would forget what the larger is owed, and a hard one what a soft one is.
#[test]
fn buckets_that_share_a_counter_must_be_of_one_size_and_soft_alike() {
    let file = |more: &str| {
        format!(
            "policies:\n  - {{id: a, limit: 1, burst: 10, window: 1s, counter: c}}\n  \
             - {{id: b, limit: 1, window: 1s, counter: c, {more}}}\n"
        )
    };
    let said = problem(&file("burst: 5"));
    assert!(
        said.contains("`a`, and a bucket can't have two sizes: give both the same burst"),
        "{said}"
    );
    assert!(problem(&file("burst: 5, mode: shadow")).contains("two sizes"));
    assert!(problem(&file("burst: 10, mode: soft")).contains("goes on past its limit"));
    snapshot(&file("burst: 10, mode: shadow"));
    snapshot("policies: [{id: a, limit: 1, window: day, mode: soft}, {id: b, limit: 2, window: day}]\n");
}

#[test]
fn a_file_that_says_nothing_is_refused_however_that_is_spelt() {
    for file in [
        "",
        "\n",
        "# nothing\n",
        "---\n# nothing\n",
        "---\n",
        "--- ~\n...\n",
        "{}\n",
    ] {
        let said = problem(file);
        assert!(
            said.contains("says nothing; `policies: []` says that nothing is limited"),
            "{said}"
        );
    }
    for file in ["policies: []\n", "policies:\n", "policies: ~\ntiers: null\n"] {
        let snapshot = snapshot(file);
        assert!(snapshot.limits().is_empty());
        assert_eq!(snapshot.tiers().len(), 1);
    }
}

/// Two quotas a day, with some more fields each.
fn quotas(first: &str, second: &str) -> String {
    format!(
        "policies:\n  - {{id: utc, limit: 10, window: day{first}}}\n  - {{id: ny, limit: 15, window: day{second}}}\n"
    )
}

const NEW_YORK: &str = ", timezone: America/New_York";

#[test]
fn quotas_that_share_a_count_must_reset_it_at_the_same_midnight() {
    assert_eq!(
        problem(&quotas("", NEW_YORK)),
        "line 3: policies (ny).timezone: shares its count with the policy `utc`, which resets it by the timezone UTC and not \
         America/New_York: give one of them a counter of its own, or both the same timezone"
    );
    for (first, second) in [
        ("", ", timezone: org"),
        (NEW_YORK, ", timezone: org"),
        (", orgTier: Gold", NEW_YORK),
        (", mode: soft", NEW_YORK),
        (", counter: c", ", counter: c, timezone: Asia/Tokyo"),
        // Not within an org, so that orgs of both tiers are in one count.
        (
            ", scope: global, orgTier: Gold",
            ", scope: global, orgTier: Silver, timezone: America/New_York",
        ),
        (
            ", scope: ip, orgTier: Gold",
            ", scope: ip, orgTier: Silver, timezone: Asia/Tokyo",
        ),
    ] {
        let said = problem(&quotas(first, second));
        assert!(
            said.starts_with("line 3: policies (ny).timezone: shares"),
            "{said}"
        );
        let months = quotas(first, second).replace("day", "month");
        assert!(problem(&months).contains("shares its count with the policy `utc`"));
    }
}

#[test]
fn quotas_of_different_zones_are_fine_where_they_do_not_meet() {
    for (first, second) in [
        (NEW_YORK, NEW_YORK),
        ("", ", timezone: UTC"),
        ("", ", timezone: America/New_York, counter: ny"),
        ("", ", timezone: America/New_York, scope: app"),
        ("", ", timezone: America/New_York, endpointPattern: /a"),
        ("", ", timezone: America/New_York, unit: tokens"),
        ("", ", timezone: America/New_York, mode: off"),
        // A change of plan keeps what was used, and the window that has begun.
        (", orgTier: Gold", ", orgTier: Silver, timezone: America/New_York"),
    ] {
        snapshot(&quotas(first, second));
    }
}

/// Each org has its own midnight and its own billing month, and one count can have only one.
#[test]
fn a_quota_across_orgs_resets_for_all_at_once() {
    let file = |more: &str| format!("policies:\n  - {{id: q, limit: 5, {more}}}\n");
    let said = problem(&file("window: day, scope: ip, timezone: org"));
    assert!(said.contains("midnight of its own: name a timezone"), "{said}");
    let said = problem(&file("window: billing_month, scope: global"));
    assert!(said.contains("billing month of its own: take month"), "{said}");
    snapshot(&file("window: day, scope: [ip, org], timezone: org"));
    snapshot(&file("window: billing_month, scope: org, timezone: org"));
    snapshot(&file("window: month, scope: global, timezone: Asia/Tokyo"));
}
