//! Paths as attackers write them: every limit on a route that a service could take one for applies to it, or it is refused.
//!
//! The services are models of how Flask, Node, Go and Tomcat read a path, written for this test from what they do; they
//! share nothing with the code that is tested.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod services;
mod spelling;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};

use common::{now, resolved};
use services::{SERVICES, Service};
use spelling::Draw;
use tollgate_catalog::Request;
use tollgate_catalog::route::{Endpoint, EndpointError};
use tollgate_catalog::snapshot::Snapshot;

/// The patterns that have limits, and those that have classes, in the list's order.
const PATTERNS: [&str; 11] = [
    "/",
    "/h",
    "/v1",
    "GET /v1/two",
    "/v1/two/{x}",
    "GET /v1/search/{term}",
    "/v1/files/*",
    "GET /v1/{resource}",
    "/v1/exports/*",
    "POST /v1/exports/{id}/b",
    "/{a}/{b}/{c}",
];
const CLASSES: [(&str, &str); 4] = [
    ("GET /v1/{resource}", "cheap"),
    ("/v1/exports/*", "heavy"),
    ("GET /v1/search/{term}", "search"),
    ("/v1/*", "rest"),
];

fn limits() -> std::sync::Arc<Snapshot> {
    let mut file = "endpointClasses:\n".to_owned();
    for (pattern, class) in CLASSES {
        let _ = writeln!(file, "  - {{pattern: \"{pattern}\", class: {class}}}");
    }
    file += "policies:\n";
    let classes = CLASSES.map(|(_, class)| format!("class:{class}"));
    let patterns = PATTERNS.iter().map(|pattern| (*pattern).to_owned());
    for (number, pattern) in patterns.chain(classes).enumerate() {
        let _ = writeln!(
            file,
            "  - {{id: \"{number}\", endpointPattern: \"{pattern}\", limit: 5, window: 1h}}"
        );
    }
    common::snapshot(&file)
}

/// The number of the policy for a class, after those for the patterns.
fn policy_of_class(class: usize) -> usize {
    PATTERNS.len() + class
}

/// The policies that apply to a request; `None` if it is refused.
fn applied(snapshot: &Snapshot, method: &str, path: &str) -> Option<Vec<usize>> {
    let mut request = Request::new();
    request.org = Some("acme");
    request.endpoint = match Endpoint::of(Some(method), path) {
        Ok(endpoint) => Some(endpoint),
        Err(EndpointError::Ambiguous) => return None,
        Err(error) => panic!("{method} {path}: {error}"),
    };
    let stack = resolved(snapshot, &request, now());
    Some(
        stack
            .limits
            .iter()
            .map(|limit| limit.id.parse().unwrap())
            .collect(),
    )
}

/// The policies that ought to apply, for the service routes the request so.
fn expected(service: Service, method: &str, path: &str) -> Vec<usize> {
    let Some(segments) = service(path) else {
        return Vec::new();
    };
    let routes = |pattern: &str| services::routes(pattern, method, &segments);
    let patterns = (0..PATTERNS.len()).filter(|number| routes(PATTERNS[*number]));
    let class = CLASSES.iter().position(|(pattern, _)| routes(pattern));
    patterns.chain(class.map(policy_of_class)).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// More with `TOLLGATE_PATHS`; `TOLLGATE_PATHS_SEED` draws the same again.
#[test]
fn fresh_spellings_get_by_no_limit() {
    let snapshot = limits();
    let seed = number("TOLLGATE_PATHS_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("TOLLGATE_PATHS_SEED={seed}");
    let mut draw = Draw::new(seed);
    let paths = number("TOLLGATE_PATHS").unwrap_or(200_000);
    let mut refused = 0;
    let mut met: HashMap<&str, u64> = HashMap::new();
    for _ in 0..paths {
        let method = ["GET", "HEAD", "POST"][draw.below(3)];
        let path = spelling::draw(&mut draw);
        let Some(applied) = applied(&snapshot, method, &path) else {
            refused += 1;
            continue;
        };
        for (name, service) in SERVICES {
            for policy in expected(service, method, &path) {
                *met.entry(name).or_default() += 1;
                assert!(
                    applied.contains(&policy),
                    "TOLLGATE_PATHS_SEED={seed}: {name} routes `{method} {path}` to {}, and its limit does not apply: {applied:?}",
                    PATTERNS.get(policy).copied().unwrap_or("a class"),
                );
            }
        }
    }
    println!("{paths} paths, {refused} refused; routed to a limit: {met:?}");
    assert!(refused * 20 < paths, "{refused} of {paths} are refused");
    for (name, _) in SERVICES {
        assert!(
            met.get(name).copied().unwrap_or(0) * 50 > paths,
            "{name} routes hardly any: {met:?}"
        );
    }
}

#[test]
fn known_spellings_get_by_no_limit_and_are_not_refused() {
    let snapshot = limits();
    for (path, limits) in [
        ("/v1/search/%3Bx", &[5, 7][..]),
        ("/v1/search/;x", &[5, 7]),
        ("/v1/files/..%3B/..%3B/h", &[1, 6]),
        ("/v1/files/..;/..;/h", &[1, 6]),
        ("/v1/files/../../h", &[1, 6]),
        ("/v1/two//..", &[2, 3]),
        ("//host/v1/two", &[3]),
        ("/\\host/v1/two", &[3]),
        ("/v1/search/..\\..\\h", &[1, 5]),
        ("/v1/search/#x", &[5]),
        ("/v1/exports%2Fa", &[7, 8]),
        ("/v1/%2e%2e/h", &[1, 10]),
    ] {
        for method in ["GET", "HEAD"] {
            let applied = applied(&snapshot, method, path).expect(path);
            for limit in limits {
                assert!(
                    applied.contains(limit),
                    "{method} {path}: {limit} is not in {applied:?}"
                );
            }
        }
    }
    let both = applied(&snapshot, "GET", "/v1/exports%2Fa").unwrap();
    assert!(
        both.contains(&policy_of_class(0)) && both.contains(&policy_of_class(1)),
        "{both:?}"
    );
}

/// What every service reads alike meets the limits of its own routes, and no more.
#[test]
fn an_ordinary_path_meets_no_more_than_its_own() {
    let snapshot = limits();
    for path in [
        "/v1/two",
        "/v1/search/a%20b",
        "/V1/Exports/7/",
        "/v1/files/a/b.c",
        "/v1/x?a=/../h;#",
    ] {
        let mut applied = applied(&snapshot, "GET", path).unwrap();
        let lowered = path.to_ascii_lowercase();
        let plain = lowered.split('?').next().unwrap().trim_end_matches('/');
        let mut expected = expected(services::go_cleaned, "GET", plain);
        expected.sort_unstable();
        applied.sort_unstable();
        assert_eq!(applied, expected, "{path}");
    }
}
