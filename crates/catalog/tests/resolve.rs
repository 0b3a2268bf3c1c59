//! From a request to its stack: what applies, and whose counter it means.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{SEED, applied, now, request, resolved, snapshot};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::{Skip, Snapshot, Verdict};
use tollgate_core::{CounterKey, Timestamp};

/// The counter that the only policy means for a request.
fn key(snapshot: &Snapshot, text: &str) -> CounterKey {
    let asked = request(text);
    let stack = resolved(snapshot, &asked, now());
    assert_eq!(stack.levels.len(), 1, "{text}");
    stack.levels[0].key
}

fn only(policy: &str) -> Arc<Snapshot> {
    snapshot(&format!(
        "policies:\n  - {{id: p, limit: 5, window: 1m, {policy}}}\n"
    ))
}

fn replaced(past: &Arc<Snapshot>, file: &str, now: Timestamp) -> Arc<Snapshot> {
    let set = parse_policy_set(file).expect("a good file");
    Arc::new(Snapshot::compile(&set, SEED, Some((past, now))).expect("a good file"))
}

#[test]
fn a_limit_whose_dimension_the_request_lacks_is_skipped_and_it_is_said_why() {
    for (scope, with, without, lacking) in [
        ("endpoint", "/a", "acme", "endpoint"),
        ("ip", "ip=::1", "acme", "ip"),
        ("org", "acme", "app=a", "org"),
        ("app", "app=a", "acme", "app"),
        ("key", "key=k", "acme", "key"),
        ("user", "user=u", "acme", "user"),
        (
            "\"descriptor:region\"",
            "region=eu",
            "zone=eu",
            "descriptor:region",
        ),
        ("[ip, app]", "app=a ip=::1", "app=a", "ip"),
        ("[ip, app]", "app=a ip=::1", "ip=::1", "app"),
    ] {
        let snapshot = only(&format!("scope: {scope}"));
        assert_eq!(applied(&snapshot, with), "p=5", "{scope}");
        assert_eq!(applied(&snapshot, without), "", "{scope}");
        let asked = request(without);
        let explained = snapshot.explain(&asked, now());
        let Verdict::Skipped(Skip::Lacks(dimension)) = &explained[0].verdict else {
            panic!("{scope}: {:?}", explained[0].verdict);
        };
        assert_eq!(dimension.to_string(), lacking);
    }
    assert_eq!(applied(&only("scope: global"), ""), "p=5");
}

#[test]
fn without_an_endpoint_only_patterns_for_everything_apply() {
    for (pattern, alone) in [("\"*\"", "p=5"), ("/*", ""), ("GET /*", ""), ("/", "")] {
        let snapshot = only(&format!("endpointPattern: {pattern}"));
        assert_eq!(applied(&snapshot, "acme"), alone, "{pattern}");
        assert_eq!(applied(&snapshot, "acme GET /"), "p=5", "{pattern}");
    }
}

#[test]
fn the_first_class_that_matches_is_the_endpoints_class() {
    let snapshot = snapshot(
        "endpointClasses:
  - {pattern: \"GET /a/{x}\", class: one}
  - {pattern: \"/a/*\", class: two}
  - {pattern: \"*\", class: rest}
policies:
  - {id: one, endpointPattern: \"class:one\", limit: 5, window: 1m}
  - {id: two, endpointPattern: \"class:two\", limit: 5, window: 1m}
  - {id: rest, endpointPattern: \"class:rest\", limit: 5, window: 1m}
",
    );
    for (endpoint, class) in [
        ("acme GET /a/7", "one=5"),
        ("acme POST /a/7", "two=5"),
        ("acme GET /a", "two=5"),
        ("acme GET /a/7/8", "two=5"),
        ("acme GET /b", "rest=5"),
        ("acme GET /", "rest=5"),
        ("acme", ""),
    ] {
        assert_eq!(applied(&snapshot, endpoint), class, "{endpoint}");
    }
    let asked = request("acme GET /b");
    let class = resolved(&snapshot, &asked, now()).class.unwrap();
    assert_eq!(&*snapshot.classes()[class as usize], "rest");
}

#[test]
fn the_same_id_in_another_org_is_somebody_else() {
    for (scope, field) in [("app", "app"), ("key", "key"), ("user", "user")] {
        let snapshot = only(&format!("scope: {scope}"));
        let of = |org: &str| key(&snapshot, &format!("{org} {field}=x"));
        assert_eq!(of("acme"), of("acme"));
        assert_ne!(of("acme"), of("globex"), "{scope}");
        assert_ne!(of("acme"), key(&snapshot, &format!("{field}=x")), "{scope}");
    }
    let snapshot = only("scope: ip");
    assert_eq!(key(&snapshot, "acme ip=::1"), key(&snapshot, "globex ip=::1"));
}

#[test]
fn dimensions_with_the_same_value_are_not_mixed_up() {
    let snapshot = snapshot(
        "policies:\n  - {id: a, scope: app, limit: 5, window: 1m}\n  - {id: k, scope: key, limit: 5, window: 1m}\n  \
         - {id: u, scope: user, limit: 5, window: 1m}\n",
    );
    let asked = request("acme/x key=x user=x");
    let stack = resolved(&snapshot, &asked, now());
    let keys: Vec<CounterKey> = stack.levels.iter().map(|level| level.key).collect();
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    let pair = only("scope: [app, user]");
    assert_ne!(key(&pair, "acme/x user=y"), key(&pair, "acme/y user=x"));
    let reversed = only("scope: [user, app]");
    assert_eq!(
        key(&pair, "acme/x user=y"),
        key(&reversed, "acme/x user=y"),
        "the order it is written in is for people"
    );
}

#[test]
fn an_orgs_levels_live_in_one_place() {
    let snapshot = snapshot(
        "policies:\n  - {id: o, limit: 5, window: 1m}\n  - {id: a, scope: app, limit: 5, window: 1m}\n  \
         - {id: p, scope: [org, ip], limit: 5, window: 1m}\n",
    );
    let asked = request("acme/web ip=::1");
    let stack = resolved(&snapshot, &asked, now());
    assert!(
        stack
            .levels
            .iter()
            .all(|level| level.home == stack.levels[0].home)
    );
}

#[test]
fn counts_are_kept_by_pattern_and_never_by_path() {
    let snapshot = only("endpointPattern: \"/users/{id}\", scope: endpoint");
    assert_eq!(key(&snapshot, "GET /users/1"), key(&snapshot, "POST /Users/2/"));
    let other = only("endpointPattern: \"/teams/{id}\", scope: endpoint");
    assert_ne!(key(&snapshot, "GET /users/1"), key(&other, "GET /teams/1"));
}

#[test]
fn addresses_are_counted_by_network() {
    let snapshot = only("scope: ip");
    let of = |ip: &str| key(&snapshot, &format!("ip={ip}"));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_ne!(of("203.0.113.1"), of("203.0.113.2"));
    assert_eq!(of("::ffff:203.0.113.1"), of("203.0.113.1"));
    assert_ne!(of("::"), of("0.0.0.0"));
    let wide = only("scope: ip, ipv4Prefix: 0, ipv6Prefix: 0");
    assert_eq!(key(&wide, "ip=::1"), key(&wide, "ip=ffff::"));
    assert_ne!(key(&wide, "ip=::1"), key(&wide, "ip=0.0.0.0"));
}

#[test]
fn a_new_limit_or_burst_keeps_the_counter_and_all_else_does_not() {
    let base = key(&only("scope: org"), "acme /a");
    for same in [
        "scope: org, burst: 9",
        "scope: org, expose: false",
        "scope: org, mode: soft",
        "scope: org, orgTier: default",
    ] {
        assert_eq!(key(&only(same), "acme /a"), base, "{same}");
    }
    for other in [
        "scope: [org, endpoint]",
        "endpointPattern: /a",
        "algorithm: leaky_bucket",
        "algorithm: fixed_window",
        "counter: x",
    ] {
        assert_ne!(key(&only(other), "acme /a"), base, "{other}");
    }
}

#[test]
fn quotas_are_known_by_what_they_count_and_rates_by_their_policy() {
    let keys = |policies: &str| {
        let snapshot = snapshot(&format!("policies:\n{policies}"));
        let asked = request("acme");
        let stack = resolved(&snapshot, &asked, now());
        (stack.levels[0].key, stack.levels[1].key)
    };
    let (one, other) = keys("  - {id: a, limit: 5, window: day}\n  - {id: b, limit: 9, window: day}\n");
    assert_eq!(one, other);
    let (one, other) = keys("  - {id: a, limit: 5, window: day}\n  - {id: b, limit: 9, window: month}\n");
    assert_ne!(one, other);
    let (one, other) = keys("  - {id: a, limit: 5, window: 1m}\n  - {id: b, limit: 9, window: 1m}\n");
    assert_ne!(one, other);
    let (one, other) = keys(
        "  - {id: a, limit: 5, window: 1m, algorithm: fixed_window, counter: c}\n  - {id: b, limit: 9, window: 1m, algorithm: fixed_window, counter: c}\n",
    );
    assert_eq!(one, other);
}

#[test]
fn a_snapshot_that_was_replaced_is_let_go() {
    let file = |seconds: usize| {
        let change = format!("{{orgId: acme, policyId: p, window: {seconds}s}}");
        format!("policies:\n  - {{id: p, limit: 5, window: 1h}}\noverrides:\n  - {change}\n")
    };
    let mut current = snapshot(&file(1));
    let first = Arc::downgrade(&current);
    let mut at = now();
    for seconds in 2..10 {
        at = at.saturating_add(3_600_000_000_000);
        current = replaced(&current, &file(seconds), at);
    }
    assert_eq!(
        first.strong_count(),
        0,
        "hours after its last counter was as good as untouched"
    );
    assert_eq!(applied(&current, "acme"), "p=5");
}
