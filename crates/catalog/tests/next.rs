//! A stack that is filled for one request after the other is what a new one would be for each.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::fmt::Write;
use std::sync::Arc;

use common::{SEED, now, request, snapshot};
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_catalog::model::{Eras, KeptOverride, Org, OrgRecord, UserPlan};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::{Snapshot, Stack};

/// Limits of which the first few make up a set: nothing but ids decides about the first three.
const POLICIES: [&str; 8] = [
    "{id: key, scope: key, limit: 5, window: 1s}",
    "{id: app, scope: app, algorithm: fixed_window, limit: 50, window: 1m}",
    "{id: org, scope: org, algorithm: quota, limit: 500, window: day}",
    "{id: user, scope: user, limit: 7, window: 1s, mode: soft}",
    "{id: global, scope: global, limit: 1000, window: 1s}",
    "{id: bytes, scope: app, unit: bytes, limit: 9, window: 1s}",
    "{id: route, scope: key, endpointPattern: GET /a, limit: 3, window: 1s}",
    "{id: region, scope: \"descriptor:region\", limit: 3, window: 1s, replaces: [app]}",
];

/// Orgs with something of their own: limits in place of others, limits beside them, another tier.
const ORGS: &str = "
orgs: [{orgId: planned, tier: Pro}]
overrides:
  - {orgId: own, policyId: key, limit: 4}
  - {orgId: one-app, policyId: key, appId: a, limit: 4}
  - {orgId: beside, appId: b, limit: 4, window: 77s}
endpointClasses: [{pattern: GET /a, class: heavy}]
";

fn file(policies: usize, limit: u64) -> String {
    let mut file = "tiers: [{tier: Pro}]\npolicies:\n".to_owned();
    for policy in &POLICIES[..policies] {
        let _ = writeln!(
            file,
            "  - {}",
            policy.replace("limit: 5,", &format!("limit: {limit},"))
        );
    }
    file.push_str("  - {id: pro, orgTier: Pro, scope: user, limit: 2, window: 1s}\n");
    file + ORGS
}

const ASKED: [&str; 10] = [
    "", "acme", "acme", "globex", "own", "one-app", "beside", "planned", "anew", "users",
];

/// What is asked but for the org.
fn asked() -> impl Strategy<Value = String> {
    let app = select(&["", " app=a", " app=a", " app=b"][..]);
    let key = select(&["", " key=k", " key=l", " key=m"][..]);
    let user = select(&["", "", " user=u", " user=v"][..]);
    let rest = select(&["", "", "", "", "", " region=eu", " /a", " GET /a", " ip=::1"][..]);
    (app, key, user, rest).prop_map(|(app, key, user, rest)| format!("{app}{key}{user}{rest}"))
}

/// All of a stack that anybody looks at.
fn told(stack: &Stack<'_>) -> String {
    let limits: Vec<&str> = stack.limits.iter().map(|limit| &*limit.id).collect();
    format!(
        "{:?} {limits:?} {:?} {} {} {:?} {} {:?} {}",
        stack.levels,
        stack.formers,
        stack.tier.name,
        stack.tier_index,
        stack.class,
        stack.unlimited,
        stack.replaced,
        stack.unreadable,
    )
}

/// A set; another that counts by other algorithms, so that for a while it goes on with the first one's counters; and the
/// first after an org has counted otherwise for a while, and with users on another tier.
fn snapshots(policies: usize, then: usize) -> [Arc<Snapshot>; 4] {
    let set = |file: &str| parse_policy_set(file).unwrap();
    let before = set(&file(policies, 5));
    let first = snapshot(&file(policies, 5));
    let mut after = set(&file(then, 6).replace("fixed_window", "sliding_window_counter"));
    let eras = Eras::default().next(&before.in_force(), &after.in_force(), 1, now());
    eras.mark(&mut after);
    let second = Snapshot::compile(&after, SEED, None).unwrap();
    let otherwise = |org: &str| {
        let change = format!(r#"{{"orgId":"{org}","policyId":"key","algorithm":"fixed_window"}}"#);
        OrgRecord {
            overrides: vec![KeptOverride::Json(change.into())],
            ..OrgRecord::plain(Org::named(org))
        }
    };
    let users = OrgRecord {
        users: vec![UserPlan {
            id: "u".to_owned(),
            tier: "Pro".to_owned(),
            anchor: None,
        }],
        ..OrgRecord::plain(Org::named("users"))
    };
    let with = |snapshot: &Snapshot, orgs: [OrgRecord; 2]| {
        let orgs = orgs.map(|record| (record.org.id.clone(), Some(record)));
        snapshot.with_orgs(orgs.into(), now()).unwrap()
    };
    let third = with(
        &first,
        [otherwise("anew"), OrgRecord::plain(Org::named("globex"))],
    );
    let third = with(&third, [OrgRecord::plain(Org::named("anew")), otherwise("later")]);
    let fourth = with(&first, [users, OrgRecord::plain(Org::named("globex"))]);
    [first, Arc::new(second), Arc::new(third), Arc::new(fourth)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_that_was_anothers_is_what_a_new_one_would_be(
        sets in (1..=POLICIES.len(), 1..=POLICIES.len()),
        which in 0..4_usize,
        orgs in prop::array::uniform2(select(&ASKED[..])),
        row in prop::collection::vec((0..4_usize, asked(), 0..3_u64, any::<(bool, bool)>()), 1..12),
    ) {
        let snapshots = snapshots(sets.0, sets.1);
        let mut stack = snapshots[0].blank();
        let mut before: Option<(String, bool)> = None;
        for (org, text, cost, (test, other)) in &row {
            let text = format!("{}{text}", orgs[org / 3]).trim().to_owned();
            // Mostly by one of them, and now and then by another.
            let which = if *other && *cost == 0 { 0 } else { which };
            let mut asked = request(&text);
            (asked.cost, asked.test) = (*cost, *test && *cost == 2);
            snapshots[which].resolve_next(&asked, now(), &mut stack);
            let mut fresh = snapshots[which].blank();
            snapshots[which].resolve(&asked, now(), &mut fresh);
            prop_assert_eq!(told(&stack), told(&fresh), "{}", text);
            if stack.again {
                let (last, same_test) = before.as_ref().map(|(text, test)| (request(text), *test == asked.test)).unwrap();
                prop_assert!(same_test && last.org == asked.org && last.app == asked.app, "{text}");
            }
            before = Some((text.clone(), asked.test));
        }
    }
}

#[test]
fn rows_of_plain_requests_are_known_as_such() {
    let snapshot = snapshot(&file(3, 5));
    let mut stack = snapshot.blank();
    let again = [
        "acme app=a key=k",
        "acme app=a key=l",
        "acme app=b key=l",
        "acme app=b key=l",
        "globex app=b key=l",
    ]
    .map(|text| {
        snapshot.resolve_next(&request(text), now(), &mut stack);
        stack.again
    });
    assert_eq!(again, [false, true, false, true, false]);
}

#[test]
fn what_makes_a_difference_is_seen() {
    let snapshots = snapshots(3, 3);
    for (which, first, second) in [
        (0, "acme app=a key=k", "acme app=a key=l"),
        (0, "acme app=a key=k", "acme app=a"),
        (0, "acme app=a key=k", "acme app=a key=k GET /a"),
        (0, "acme app=a key=k GET /a", "acme app=a key=k"),
        (0, "beside app=a", "beside app=b"),
        (0, "one-app app=b key=k", "one-app app=a key=k"),
        (1, "acme app=a key=k", "acme app=b key=k"),
        (2, "anew key=k", "anew key=l"),
        (3, "users user=v", "users user=u"),
    ] {
        let snapshot = &snapshots[which];
        let mut stack = snapshot.blank();
        snapshot.resolve_next(&request(first), now(), &mut stack);
        let before = told(&stack);
        snapshot.resolve_next(&request(second), now(), &mut stack);
        let asked = request(second);
        let mut fresh = snapshot.blank();
        snapshot.resolve(&asked, now(), &mut fresh);
        assert_ne!(before, told(&fresh), "{first}, {second}");
        assert_eq!(told(&stack), told(&fresh), "{first}, {second}");
    }
}
