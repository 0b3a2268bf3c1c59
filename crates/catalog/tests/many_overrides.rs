//! What one org has many of costs its requests little more than what others have few of. Times are held against each
//! other, in one run and taken in turn, never against a clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use common::{now, request, resolved, snapshot};
use tollgate_catalog::snapshot::Snapshot;

const FEW: usize = 8;
const MANY: usize = 20_000;

/// Two orgs that have so many of the same; `NUMBER` stands for which of them.
fn two_orgs(list: &str, entry: &str) -> String {
    let mut file = "orgs: [{orgId: few}, {orgId: many}]
policies:
  - {id: each-key, scope: key, limit: 10, window: 1s}
  - {id: each-user, scope: user, limit: 10, window: 1s}
  - {id: org, scope: org, limit: 1000, window: 1s}\n"
        .to_owned();
    let _ = writeln!(file, "{list}:");
    for (org, count) in [("few", FEW), ("many", MANY)] {
        for number in 0..count {
            let entry = entry.replace("NUMBER", &number.to_string());
            let _ = writeln!(file, "  - {{orgId: {org}, {entry}}}");
        }
    }
    file
}

/// How long a hundred checks take, at their fastest.
fn fastest(snapshot: &Snapshot, texts: [&str; 2]) -> [Duration; 2] {
    let requests = texts.map(request);
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..100 {
        for (request, fastest) in requests.iter().zip(&mut fastest) {
            let began = Instant::now();
            for _ in 0..100 {
                black_box(resolved(snapshot, black_box(request), now()).levels.len());
            }
            *fastest = began.elapsed().min(*fastest);
        }
    }
    fastest
}

fn assert_alike(file: &str, callers: &[&str]) {
    let snapshot = snapshot(file);
    for caller in callers {
        let texts = ["few", "many"].map(|org| format!("{org}{caller}"));
        let [few, many] = fastest(&snapshot, [&texts[0], &texts[1]]);
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!("{caller}: {few:?}, {many:?}, {ratio:.1} times as long");
        assert!(
            ratio < 8.0,
            "{caller}: {few:?}, {many:?}, {ratio:.1} times as long"
        );
    }
}

#[test]
fn overrides_of_many_endpoints_slow_no_request_down() {
    let file = two_orgs(
        "overrides",
        "policyId: org, limit: 5, endpointPattern: GET /pNUMBER",
    );
    assert_alike(&file, &[" GET /p7", " GET /other", ""]);
}

#[test]
fn overrides_of_many_keys_slow_no_request_down() {
    let file = two_orgs("overrides", "policyId: each-key, keyId: kNUMBER, limit: 5");
    assert_alike(&file, &[" key=k7", " key=other", ""]);
}

#[test]
fn overrides_beside_policies_slow_no_request_down() {
    let file = two_orgs("overrides", "policyId: org, keyId: kNUMBER, limit: 5");
    assert_alike(&file, &[" key=k7", " key=other", ""]);
}

#[test]
fn overrides_of_one_thing_slow_no_request_down() {
    let file = two_orgs("overrides", "policyId: org, limit: 5, endpointPattern: GET /p");
    assert_alike(&file, &[" GET /p", " GET /other"]);
}

/// Only what ended so lately that its count still matters is looked at.
#[test]
fn overrides_that_have_ended_slow_no_request_down() {
    let ended = "expiresAt: 2024-07-14T00:00:00Z";
    let keys = format!("policyId: each-key, keyId: kNUMBER, limit: 5, {ended}");
    assert_alike(&two_orgs("overrides", &keys), &[" key=k7", " key=other", ""]);
    let endpoints = format!("policyId: org, limit: 5, endpointPattern: GET /pNUMBER, {ended}");
    assert_alike(
        &two_orgs("overrides", &endpoints),
        &[" GET /p7", " GET /other", ""],
    );
}

/// Twenty times as many take about twenty times as long to compile, not four hundred times.
#[test]
fn an_org_is_compiled_in_a_time_that_grows_as_its_overrides_do() {
    let compile = |count: usize| {
        let mut file = "orgs: [{orgId: acme}]\npolicies: [{id: each-key, scope: key, limit: 10, window: 1s}]\noverrides:\n"
            .to_owned();
        for number in 0..count {
            let _ = writeln!(
                file,
                "  - {{orgId: acme, policyId: each-key, keyId: k{number}, limit: 5}}"
            );
        }
        let set = tollgate_catalog::parse_policy_set(&file).unwrap();
        let one = || {
            let began = Instant::now();
            let _ = black_box(Snapshot::compile(&set, common::SEED, None).unwrap());
            began.elapsed()
        };
        (0..5).map(|_| one()).min().unwrap()
    };
    let (few, many) = (compile(1_000), compile(20_000));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("{few:?}, {many:?}, {ratio:.1} times as long");
    assert!(ratio < 150.0, "{few:?}, {many:?}, {ratio:.1} times as long");
}
