//! Names of counters, held against those that earlier versions gave. A name that changes forgets what was used.

use std::fmt::Write as _;

use serde_json::Value;
use tollgate_core::KeySeed;

use super::{hash, named};
use crate::model::Policy;
use crate::request::Request;
use crate::route::Endpoint;
use crate::snapshot::limit::{Limit, Routes, counter_name};

/// A policy in each line, with what its count is called, and the names of its counters for [`request`] by a live and by a
/// test key. They were written before names had an encoding of their own, and stay as they are: a new line is welcome, a
/// changed one resets the quotas of everybody whose policy is like it.
const GOLDEN: &str = include_str!("golden.jsonl");

fn request(test: bool) -> Request<'static> {
    let mut request = Request {
        org: Some("acme"),
        app: Some("web"),
        key: Some("k1"),
        user: Some("u7"),
        ip: Request::address("203.0.113.9").ok(),
        endpoint: Endpoint::parse("POST /v1/records").ok(),
        test,
        ..Request::new()
    };
    request
        .descriptors
        .extend([("region", "eu"), ("a", "1"), ("b", "é\u{301}")]);
    request
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn policy(line: &Value) -> Policy {
    let file = serde_json::json!({"endpointClasses": [{"pattern": "/heavy", "class": "heavy"}], "policies": [line["policy"]]});
    let set =
        crate::parse_policy_set(&file.to_string()).unwrap_or_else(|problems| panic!("{line}: {problems:?}"));
    let mut policy = set.policies[0].clone();
    policy.apart = line["apart"].as_str().map(str::to_owned);
    policy.shared_since = line["since"].as_u64().unwrap_or(0);
    policy
}

/// What a policy's count is called, and the names of its counters.
fn names(policy: &Policy) -> (String, String, String) {
    let limit = Limit::new(policy, Routes::Any, KeySeed::new(1, 2));
    let name = counter_name(policy.count_name(), policy.shared_since);
    assert_eq!(limit.name, hash(&[name.as_bytes()]));
    let [live, test] = [false, true].map(|test| hex(&named(&limit, &[], &request(test))));
    (name, live, test)
}

#[test]
fn names_are_what_they_always_were() {
    let mut lines = 0;
    for line in GOLDEN.lines() {
        let golden: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (name, live, test) = names(&policy(&golden));
        assert_eq!(golden["name"], name, "{}", golden["policy"]);
        assert_eq!(golden["live"], live, "{}", golden["policy"]);
        assert_eq!(golden["test"], test, "{}", golden["policy"]);
        lines += 1;
    }
    assert!(lines > 300, "only {lines} lines are left");
}
