//! Overrides: which policy they are for, what they set, and which of several counts.

mod common;

use common::{applied, applied_at, compiled, instant, now, problem, request, resolved, snapshot};
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::{Snapshot, Verdict};

/// A file with the usual policies and these overrides, from line 11 on.
fn file(overrides: &[&str]) -> String {
    let policies = "tiers: [{tier: Gold}]
orgs: [{orgId: acme, tier: Gold}, {orgId: globex, tier: Gold}]
policies:
  - {id: day, scope: org, limit: 1000, window: day}
  - {id: minute, scope: org, limit: 100, window: 1m}
  - {id: exports, scope: org, endpointPattern: \"POST /exports\", limit: 10, window: 1m}
  - {id: writes, scope: org, requiredScope: write, limit: 50, window: 1m}
  - {id: key, scope: key, limit: 20, window: 1s}
  - {id: other, orgTier: default, scope: org, limit: 7, window: 1h}
overrides:
";
    let lines: Vec<String> = overrides.iter().map(|line| format!("  - {{{line}}}\n")).collect();
    format!("{policies}{}", lines.concat())
}

fn with(overrides: &[&str]) -> std::sync::Arc<Snapshot> {
    snapshot(&file(overrides))
}

#[test]
fn a_policy_is_picked_by_its_id() {
    let snapshot = with(&["orgId: acme, policyId: day, limit: 5000"]);
    assert_eq!(applied(&snapshot, "acme"), "day=5000 minute=100");
    assert_eq!(applied(&snapshot, "globex"), "day=1000 minute=100");
}

#[test]
fn a_policy_is_picked_by_the_fields_it_carries() {
    for (fields, expected) in [
        ("window: day", "day=3 exports=10 minute=100 writes=50"),
        (
            "endpointPattern: \"post /Exports/\"",
            "day=1000 exports=3 minute=100 writes=50",
        ),
        ("requiredScope: write", "day=1000 exports=10 minute=100 writes=3"),
        (
            "scope: org, endpointPattern: \"POST /exports\", window: 1m",
            "day=1000 exports=3 minute=100 writes=50",
        ),
    ] {
        let snapshot = with(&[&format!("orgId: acme, {fields}, limit: 3")]);
        assert_eq!(
            applied(&snapshot, "acme scope=write POST /exports"),
            expected,
            "{fields}"
        );
    }
    let snapshot = with(&["orgId: acme, scope: key, limit: 3"]);
    assert_eq!(applied(&snapshot, "acme key=k"), "day=1000 minute=100 key=3");
}

#[test]
fn several_that_fit_are_listed() {
    for (fields, listed) in [
        ("limit: 3", "day, exports, minute, writes, key"),
        ("scope: org, limit: 3", "day, exports, minute, writes"),
        ("window: 1m, limit: 3", "exports, minute, writes"),
        (
            "endpointPattern: \"*\", scope: org, limit: 3",
            "day, minute, writes",
        ),
    ] {
        assert_eq!(
            problem(&file(&[&format!("orgId: acme, {fields}")])),
            format!("line 11: overrides[0]: fits several policies: {listed}; name one by policyId")
        );
    }
}

#[test]
fn what_sets_no_value_is_an_error() {
    for fields in [
        "policyId: day",
        "policyId: day, keyId: k, reason: none, expiresAt: 2099-01-01T00:00:00Z",
        "scope: key",
        "scope: key, window: 1s",
    ] {
        let said = problem(&file(&[&format!("orgId: acme, {fields}")]));
        assert!(
            said.starts_with("line 11: overrides[0]: changes nothing"),
            "{fields}: {said}"
        );
    }
    // A window beside a policy's id is a value.
    with(&["orgId: acme, policyId: minute, window: 2m"]);
}

#[test]
fn none_that_fits_is_an_error_without_limit_and_window() {
    for fields in [
        "scope: ip, limit: 3",
        "scope: ip, window: 1m",
        "window: 2h",
        "endpointPattern: /x, limit: 3",
    ] {
        let said = problem(&file(&[&format!("orgId: acme, {fields}")]));
        assert_eq!(
            said,
            "line 11: overrides[0]: fits none of the policies of acme; name one by policyId, or give limit and window for a new limit",
            "{fields}"
        );
    }
}

#[test]
fn none_that_fits_with_limit_and_window_is_a_new_limit_of_that_org() {
    let snapshot = with(&["orgId: acme, limit: 3, window: 2h"]);
    assert_eq!(
        applied(&snapshot, "acme"),
        "day=1000 minute=100 org-2h:org:acme=3"
    );
    assert_eq!(applied(&snapshot, "globex"), "day=1000 minute=100");
    let snapshot = with(&["orgId: acme, endpointPattern: \"GET /x\", limit: 3, window: 2h"]);
    assert_eq!(applied(&snapshot, "acme"), "day=1000 minute=100");
    assert_eq!(
        applied(&snapshot, "acme GET /x"),
        "day=1000 minute=100 org-2h:org:acme:GET..x=3"
    );
    let snapshot = with(&["orgId: acme, requiredScope: admin, limit: 3, window: 2h"]);
    assert_eq!(applied(&snapshot, "acme"), "day=1000 minute=100");
    assert_eq!(
        applied(&snapshot, "acme scope=admin"),
        "day=1000 minute=100 org-2h:org:acme:admin=3"
    );
}

#[test]
fn a_new_limit_for_someone_of_the_org_counts_them() {
    let snapshot = with(&[
        "orgId: acme, userId: u, limit: 3, window: 2h",
        "orgId: acme, appId: a, limit: 4, window: 2h",
        "orgId: acme, keyId: k, limit: 5, window: 2h",
    ]);
    assert_eq!(
        applied(&snapshot, "acme user=u"),
        "day=1000 minute=100 user-2h:user:u=3"
    );
    assert_eq!(applied(&snapshot, "acme user=v"), "day=1000 minute=100");
    assert_eq!(
        applied(&snapshot, "acme/a key=k user=u"),
        "day=1000 minute=100 app-2h:app:a=4 key=20 key-2h:key:k=5 user-2h:user:u=3"
    );
    assert_eq!(applied(&snapshot, "globex/a user=u"), "day=1000 minute=100");
    let new = resolved(&snapshot, &request("acme user=u"), now());
    assert_eq!(&*new.limits[2].scope_name, "user");
}

#[test]
fn new_limits_for_different_permissions_stand_side_by_side() {
    let snapshot = with(&[
        "orgId: acme, requiredScope: admin, limit: 3, window: 2h",
        "orgId: acme, requiredScope: root, limit: 4, window: 2h",
    ]);
    assert_eq!(
        applied(&snapshot, "acme scope=admin scope=root"),
        "day=1000 minute=100 org-2h:org:acme:admin=3 org-2h:org:acme:root=4"
    );
}

#[test]
fn an_unknown_policy_or_another_scope_is_an_error() {
    assert_eq!(
        problem(&file(&["orgId: acme, policyId: minuet, limit: 3"])),
        "line 11: overrides[0].policyId: there is no policy `minuet`; did you mean `minute`?"
    );
    assert_eq!(
        problem(&file(&["orgId: acme, policyId: day, scope: key, limit: 3"])),
        "line 11: overrides[0].scope: the policy `day` has the scope org"
    );
    with(&["orgId: acme, policyId: day, scope: org, limit: 3"]);
}

#[test]
fn a_policy_of_another_tier_is_left_alone_until_the_org_has_that_tier() {
    let snapshot = with(&[
        "orgId: acme, policyId: other, limit: 3",
        "orgId: nobody, policyId: other, limit: 4",
    ]);
    assert_eq!(applied(&snapshot, "acme"), "day=1000 minute=100");
    assert_eq!(applied(&snapshot, "nobody"), "day=1000 minute=100 other=4");
    assert_eq!(applied(&snapshot, "stranger"), "day=1000 minute=100 other=7");
}

#[test]
fn values_that_are_not_given_stay() {
    let snapshot = with(&[
        "orgId: acme, policyId: day, mode: soft",
        "orgId: acme, policyId: minute, burst: 500",
    ]);
    let stack = resolved(&snapshot, &request("acme"), now());
    assert_eq!(stack.limits[0].rule.limit, 1000);
    assert_eq!(stack.limits[0].mode, Some(tollgate_core::Mode::Soft));
    assert_eq!(
        (stack.limits[1].rule.limit, stack.limits[1].rule.capacity),
        (100, 500)
    );
    let snapshot = with(&["orgId: acme, policyId: minute, limit: 7"]);
    let stack = resolved(&snapshot, &request("acme"), now());
    assert_eq!(
        stack.limits[1].rule.capacity, 7,
        "a burst that follows the limit follows the new one"
    );
}

#[test]
fn an_override_can_switch_a_policy_off() {
    let snapshot = with(&["orgId: acme, policyId: day, mode: off"]);
    assert_eq!(applied(&snapshot, "acme"), "minute=100");
    assert_eq!(applied(&snapshot, "globex"), "day=1000 minute=100");
}

#[test]
fn values_that_contradict_the_policy_are_errors_of_the_override() {
    for (fields, said) in [
        ("policyId: minute, window: day, limit: 3", None),
        (
            "policyId: minute, algorithm: fixed_window, window: day",
            Some("window: only a quota has a calendar window"),
        ),
        ("policyId: day, burst: 3", Some("burst: means nothing to quota")),
        (
            "policyId: day, window: 1m, algorithm: quota",
            Some("window: a quota's window is day, week, month or billing_month"),
        ),
    ] {
        let file = file(&[&format!("orgId: acme, {fields}")]);
        match said {
            None => drop(compiled(&file).unwrap_or_else(|problems| panic!("{fields}: {problems}"))),
            Some(said) => {
                let problem = problem(&file);
                assert!(
                    problem.starts_with(&format!("line 11: overrides[0].{said}")),
                    "{fields}: {problem}"
                );
            }
        }
    }
}

#[test]
fn narrower_beats_wider_whatever_the_order() {
    let overrides = [
        "orgId: acme, policyId: key, limit: 1",
        "orgId: acme, appId: web, policyId: key, limit: 2",
        "orgId: acme, keyId: k, policyId: key, limit: 3",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let snapshot = with(&order.map(|place| overrides[place]));
        assert_eq!(applied(&snapshot, "acme/web key=k"), "day=1000 minute=100 key=3");
        assert_eq!(
            applied(&snapshot, "acme/web key=other"),
            "day=1000 minute=100 key=2"
        );
        assert_eq!(
            applied(&snapshot, "acme/ios key=other"),
            "day=1000 minute=100 key=1"
        );
        assert_eq!(
            applied(&snapshot, "globex/web key=k"),
            "day=1000 minute=100 key=20"
        );
    }
}

#[test]
fn a_key_beats_a_user_and_a_user_an_app() {
    let file = |overrides: &[&str]| {
        let lines: Vec<String> = overrides
            .iter()
            .map(|line| format!("  - {{orgId: acme, policyId: p, {line}}}\n"))
            .collect();
        format!(
            "policies:\n  - {{id: p, scope: [app, key, user], limit: 9, window: 1m}}\noverrides:\n{}",
            lines.concat()
        )
    };
    let snapshot = snapshot(&file(&[
        "keyId: k, limit: 3",
        "userId: u, limit: 2",
        "appId: a, limit: 1",
    ]));
    assert_eq!(applied(&snapshot, "acme/a key=k user=u"), "p=3");
    assert_eq!(applied(&snapshot, "acme/a key=x user=u"), "p=2");
    assert_eq!(applied(&snapshot, "acme/a key=x user=x"), "p=1");
    assert_eq!(applied(&snapshot, "acme/b key=x user=x"), "p=9");
}

#[test]
fn newer_beats_older_among_equals() {
    let snapshot = with(&[
        "orgId: acme, policyId: day, limit: 1",
        "orgId: acme, policyId: day, limit: 2",
        "orgId: acme, keyId: k, policyId: key, limit: 3",
        "orgId: acme, keyId: k, policyId: key, limit: 4",
    ]);
    assert_eq!(applied(&snapshot, "acme key=k"), "day=2 minute=100 key=4");
}

#[test]
fn newer_beats_older_among_caps_beside_a_policy_and_new_limits_too() {
    let snapshot = with(&[
        "orgId: acme, keyId: k, policyId: day, limit: 5",
        "orgId: acme, keyId: k, policyId: day, limit: 50",
        "orgId: acme, limit: 3, window: 2h",
        "orgId: acme, limit: 30, window: 2h",
    ]);
    assert_eq!(
        applied(&snapshot, "acme key=k"),
        "day=1000 minute=100 org-2h:org:acme=30 key=20 day:key:k=50"
    );
}

#[test]
fn an_override_ends_at_its_instant_and_the_older_one_is_back() {
    let end = "expiresAt: 2024-07-15T18:00:00+02:00";
    let snapshot = with(&[
        "orgId: acme, policyId: day, limit: 1",
        &format!("orgId: acme, policyId: day, limit: 2, {end}"),
        "orgId: acme, keyId: k, policyId: minute, limit: 3",
        &format!("orgId: acme, keyId: k, policyId: minute, limit: 4, {end}"),
        "orgId: acme, limit: 5, window: 2h",
        &format!("orgId: acme, limit: 6, window: 2h, {end}"),
        &format!("orgId: globex, policyId: day, limit: 7, {end}"),
    ]);
    let before = instant("2024-07-15T15:59:59.999999999Z");
    let after = instant("2024-07-15T16:00:00Z");
    assert_eq!(
        applied_at(&snapshot, "acme key=k", before),
        "day=2 minute=100 org-2h:org:acme=6 key=20 minute:key:k=4"
    );
    assert_eq!(
        applied_at(&snapshot, "acme key=k", after),
        "day=1 minute=100 org-2h:org:acme=5 key=20 minute:key:k=3"
    );
    assert_eq!(applied_at(&snapshot, "globex", before), "day=7 minute=100");
    assert_eq!(applied_at(&snapshot, "globex", after), "day=1000 minute=100");
}

#[test]
fn a_key_of_an_org_wide_policy_gets_a_cap_of_its_own_beside_it() {
    let snapshot = with(&["orgId: acme, keyId: mobile, policyId: minute, limit: 5"]);
    assert_eq!(
        applied(&snapshot, "acme key=mobile"),
        "day=1000 minute=100 key=20 minute:key:mobile=5"
    );
    assert_eq!(applied(&snapshot, "acme key=other"), "day=1000 minute=100 key=20");
    let stack = resolved(&snapshot, &request("acme key=mobile"), now());
    assert_eq!(&*stack.limits[3].scope_name, "org+key");
    let other = resolved(&snapshot, &request("acme key=other"), now());
    assert_eq!(
        stack.levels[1].key, other.levels[1].key,
        "the org's own count stays the org's"
    );
}

#[test]
fn an_override_for_some_routes_is_a_cap_of_its_own_beside_the_policy() {
    let snapshot = with(&["orgId: acme, policyId: minute, endpointPattern: \"GET /slow\", limit: 5"]);
    assert_eq!(
        applied(&snapshot, "acme GET /slow"),
        "day=1000 minute=100 minute:org:acme:GET..slow=5"
    );
    assert_eq!(applied(&snapshot, "acme GET /quick"), "day=1000 minute=100");
}

#[test]
fn what_protects_the_service_from_all_orgs_is_not_lifted_for_one() {
    let file = |scope: &str| {
        format!(
            "policies:\n  - {{id: p, scope: {scope}, limit: 9, window: 1m}}\noverrides:\n  - {{orgId: acme, policyId: p, limit: 50}}\n"
        )
    };
    assert_eq!(applied(&snapshot(&file("global")), "acme"), "p=9 p:org:acme=50");
    assert_eq!(
        applied(&snapshot(&file("endpoint")), "acme /a"),
        "p=9 p:org:acme=50"
    );
    assert_eq!(
        applied(&snapshot(&file("ip")), "acme ip=::1"),
        "p=50",
        "an address of the org is counted apart"
    );
    let snapshot = snapshot(&file("ip"));
    let (org, stranger) = (request("acme ip=::1"), request("globex ip=::1"));
    let (org, stranger) = (
        resolved(&snapshot, &org, now()),
        resolved(&snapshot, &stranger, now()),
    );
    assert_ne!(org.levels[0].key, stranger.levels[0].key);
}

#[test]
fn overrides_of_one_org_are_none_of_anothers() {
    let snapshot = with(&[
        "orgId: acme, policyId: key, limit: 1",
        "orgId: ACME, policyId: key, limit: 2",
    ]);
    assert_eq!(applied(&snapshot, "acme key=k"), "day=1000 minute=100 key=1");
    assert_eq!(
        applied(&snapshot, "ACME key=k"),
        "day=1000 minute=100 other=7 key=2"
    );
    assert_eq!(applied(&snapshot, "globex key=k"), "day=1000 minute=100 key=20");
    assert_eq!(applied(&snapshot, "key=k"), "key=20");
}

#[test]
fn an_explanation_says_what_an_override_hides() {
    let snapshot = with(&["orgId: acme, policyId: day, limit: 5000, reason: \"a big customer\""]);
    let asked = request("acme");
    let explained = snapshot.explain(&asked, now());
    let day: Vec<_> = explained.iter().filter(|one| &*one.limit.id == "day").collect();
    assert_eq!(day.len(), 2);
    assert_eq!(day[0].verdict, Verdict::Applies);
    let note = day[0].limit.origin.overridden.as_ref().unwrap();
    let hidden = snapshot.hidden_by(asked.org, day[0].limit).unwrap();
    assert_eq!(hidden.rule.limit, 1000);
    assert!(snapshot.hidden_by(asked.org, hidden).is_none());
    assert_eq!(note.reason.as_deref(), Some("a big customer"));
    assert_eq!(note.line, 11);
    assert_eq!(day[1].limit.rule.limit, 1000);
}

/// What one org has in place of a limit by address counts by address and org, which is narrower than a user.
#[test]
fn what_replaces_a_limit_that_orgs_share_has_its_own_place_in_the_order() {
    let policies = "policies:
  - {id: by-address, scope: ip, limit: 9, window: 1h}
  - {id: by-user, scope: user, limit: 1, window: 1h}
overrides: [{orgId: acme, policyId: by-address, limit: 1}]
";
    let snapshot = snapshot(policies);
    assert_eq!(
        applied(&snapshot, "acme user=u ip=203.0.113.9"),
        "by-user=1 by-address=1"
    );
    assert_eq!(
        applied(&snapshot, "globex user=u ip=203.0.113.9"),
        "by-address=9 by-user=1"
    );
}

/// Two quotas on one count, and overrides of acme's and others'.
fn on_one_count(overrides: &str) -> String {
    format!(
        "policies:\n  - {{id: soft, limit: 5, window: day, mode: soft, scope: key}}\n  \
         - {{id: hard, limit: 9, window: day, scope: key}}\n  - {{id: month, limit: 99, window: month, scope: key}}\n\
         overrides:\n{overrides}"
    )
}

#[test]
fn an_override_may_not_reset_a_count_that_others_share_by_another_zone() {
    let said = problem(&on_one_count(
        "  - {orgId: acme, policyId: hard, timezone: Asia/Tokyo}\n",
    ));
    assert_eq!(
        said,
        "line 6: overrides[0].timezone: `hard` shares its count with the policy `soft`, which resets it by the timezone UTC and \
         not Asia/Tokyo: give one of them a counter of its own, or both the same timezone"
    );
    for change in [
        "orgId: acme, keyId: k, policyId: hard, timezone: org",
        "orgId: acme, policyId: month, window: day, timezone: Asia/Tokyo",
        "orgId: acme, keyId: k, policyId: month, counter: m, window: day, timezone: Asia/Tokyo}\n  \
         - {orgId: acme, policyId: hard, counter: m, timezone: Asia/Seoul",
    ] {
        let said = problem(&on_one_count(&format!("  - {{{change}}}\n")));
        assert!(said.contains("shares its count with the policy"), "{said}");
    }
    let beside = "policies: [{id: p, limit: 9, window: day, counter: c}]\n\
        overrides: [{orgId: acme, policyId: p, endpointPattern: /a, timezone: Asia/Tokyo}]\n";
    assert!(problem(beside).contains("shares its count with the policy `p`"));
}

#[test]
fn what_is_written_later_may_not_reset_a_count_that_others_share_by_another_zone() {
    let before = snapshot(&on_one_count(""));
    let zoned = on_one_count("").replace("mode: soft", "timezone: Asia/Tokyo");
    let zoned = parse_policy_set(&zoned).expect("it is right by itself");
    let said = before
        .with_common(&zoned, now())
        .err()
        .map(|said| said.to_string());
    assert!(said.is_some_and(|said| {
        said.contains("policies (hard).timezone: shares its count with the policy `soft`")
    }));
    let change = r#"{"orgId":"acme","policyId":"hard","timezone":"Asia/Tokyo"}"#;
    let record = OrgRecord {
        overrides: vec![KeptOverride::Json(change.into())],
        ..OrgRecord::plain(Org::named("acme"))
    };
    let said = before.with_orgs(vec![("acme".to_owned(), Some(record))], now());
    let said = said.err().map(|said| said.to_string());
    assert!(
        said.is_some_and(|said| said.starts_with("timezone: `hard` shares its count with the policy `soft`"))
    );
}

#[test]
fn an_override_may_have_a_zone_of_its_own_where_nothing_else_is_in_its_count() {
    for change in [
        "orgId: acme, policyId: month, timezone: Asia/Tokyo",
        "orgId: acme, policyId: hard, timezone: Asia/Tokyo, counter: tokyo",
        "orgId: acme, policyId: hard, timezone: Asia/Tokyo, mode: off",
        "orgId: acme, keyId: k, policyId: month, timezone: Asia/Tokyo}\n  \
         - {orgId: acme, keyId: j, policyId: month, timezone: Asia/Seoul}\n  \
         - {orgId: acme, policyId: month, timezone: Asia/Dubai",
        "orgId: acme, appId: a, policyId: hard, timezone: Asia/Tokyo, counter: c}\n  \
         - {orgId: acme, appId: b, policyId: soft, timezone: Asia/Seoul, counter: c",
        "orgId: acme, policyId: hard, timezone: Asia/Tokyo, counter: c}\n  \
         - {orgId: globex, policyId: soft, timezone: Asia/Seoul, counter: c",
    ] {
        snapshot(&on_one_count(&format!("  - {{{change}}}\n")));
    }
}

/// The counter of the limit `key` for a request, by overrides of a policy that counts so.
fn counter_of(policy: &str, overrides: &[&str], text: &str) -> tollgate_core::CounterKey {
    let lines = overrides
        .iter()
        .map(|line| format!("  - {{orgId: acme, policyId: key, {line}}}\n"));
    let file = format!(
        "policies: [{{id: key, {policy}}}]\noverrides:\n{}",
        lines.collect::<String>()
    );
    let snapshot = snapshot(&file);
    let stack = resolved(&snapshot, &request(text), now());
    assert_eq!(&*stack.limits[0].id, "key");
    stack.levels[0].key
}

/// A key that is used under two apps would have one bucket of two sizes, or one quota of two midnights.
#[test]
fn what_an_app_has_in_place_of_a_limit_by_key_counts_apart_where_one_count_would_not_do() {
    let bucket = "scope: key, limit: 20, window: 1s";
    let (web, ios) = ("acme/web key=k", "acme/ios key=k");
    for change in [
        "limit: 5",
        "burst: 50",
        "mode: soft",
        "window: 2s",
        "counter: c",
        "algorithm: leaky_bucket, limit: 5",
    ] {
        let overrides = &[&*format!("appId: web, {change}")];
        let of_web = counter_of(bucket, overrides, web);
        assert_ne!(of_web, counter_of(bucket, overrides, ios), "{change}");
        let both = &[
            &*format!("appId: web, {change}"),
            &*format!("appId: ios, {change}, failMode: open"),
        ];
        assert_ne!(counter_of(bucket, both, ios), of_web, "{change}");
    }
    let quota = "scope: key, limit: 20, window: day";
    let tokyo = &["appId: web, timezone: Asia/Tokyo"];
    assert_ne!(counter_of(quota, tokyo, web), counter_of(quota, tokyo, ios));
}

#[test]
fn and_else_it_keeps_the_count_of_the_policy() {
    let (web, ios) = ("acme/web key=k", "acme/ios key=k");
    for (policy, change) in [
        ("scope: key, limit: 20, window: 1s", "appId: web, mode: shadow"),
        ("scope: key, limit: 20, window: 1s", "limit: 5"),
        ("scope: key, limit: 20, window: 1s", "keyId: k, limit: 5"),
        (
            "scope: key, limit: 20, window: 1s, algorithm: fixed_window",
            "appId: web, limit: 5",
        ),
        (
            "scope: key, limit: 20, window: 1s, algorithm: sliding_window_log",
            "appId: web, limit: 5",
        ),
        ("scope: key, limit: 20, window: day", "appId: web, limit: 5"),
        ("scope: key, limit: 20, window: day", "appId: web, timezone: UTC"),
    ] {
        let plain = counter_of(policy, &[], web);
        assert_eq!(counter_of(policy, &[change], web), plain, "{policy}: {change}");
        assert_eq!(counter_of(policy, &[change], ios), plain, "{policy}: {change}");
    }
    // Counted by app and key there is only one app in each count.
    let both = "scope: [app, key], limit: 20, window: 1s";
    let plain = counter_of(both, &[], web);
    assert_eq!(counter_of(both, &["appId: web, limit: 5"], web), plain);
}

/// Two buckets on one count, and overrides of acme's.
fn in_one_bucket(overrides: &[&str]) -> String {
    let lines = overrides
        .iter()
        .map(|line| format!("  - {{orgId: acme, {line}}}\n"));
    format!(
        "policies:\n  - {{id: a, limit: 10, window: 1s, counter: c, scope: key}}\n  \
         - {{id: b, limit: 10, window: 1s, counter: c, scope: key, requiredScope: write}}\noverrides:\n{}",
        lines.collect::<String>()
    )
}

#[test]
fn an_override_may_not_give_a_bucket_that_others_share_another_size() {
    assert_eq!(
        problem(&in_one_bucket(&["policyId: a, limit: 20"])),
        "line 5: overrides[0].limit: `a` shares its counter with the policy `b`, and a bucket can't refill at two rates: give \
         both the same limit, or one a counter of its own"
    );
    assert!(problem(&in_one_bucket(&["policyId: b, burst: 20"])).contains("can't have two sizes"));
    assert!(problem(&in_one_bucket(&["keyId: k, policyId: b, mode: soft"])).contains("past its limit"));
    let beside = "policies: [{id: a, limit: 10, window: 1s, counter: c}]\n\
        overrides: [{orgId: acme, policyId: a, endpointPattern: /a, limit: 5}]\n";
    assert!(problem(beside).contains("shares its counter with the policy `a`"));
    let ends = "expiresAt: 2099-01-01T00:00:00Z";
    let of_two = problem(&in_one_bucket(&[
        "policyId: a, limit: 20",
        &format!("policyId: b, limit: 20, {ends}"),
    ]));
    assert!(of_two.contains("line 5: overrides[0].limit"), "{of_two}");
}

#[test]
fn an_override_may_where_nothing_else_is_in_the_bucket_or_all_of_it_changes() {
    for overrides in [
        &["policyId: a, limit: 20, counter: own"][..],
        &["policyId: a, limit: 20", "policyId: b, limit: 20"],
        &[
            "policyId: a, limit: 20, expiresAt: 2099-01-01T00:00:00Z",
            "policyId: b, limit: 20, expiresAt: 2099-01-01T00:00:00Z",
        ],
        &["policyId: a, limit: 20", "policyId: b, mode: off"],
        &["policyId: a, limit: 10, failMode: open"],
        &["appId: web, policyId: a, limit: 20"],
    ] {
        snapshot(&in_one_bucket(overrides));
    }
}
