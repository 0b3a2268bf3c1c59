//! Which limit is named when several refuse.

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly};

fn body() -> Value {
    json!({"orgId": "acme", "appId": "web", "keyId": "k"})
}

fn windowed(id: &str, scope: &str, window: &str) -> String {
    format!(
        "{{id: {id}, scope: {scope}, algorithm: fixed_window, anchor: first, limit: 1, window: {window}}}"
    )
}

#[test]
fn the_longest_wait_binds_wherever_it_stands() {
    for (policies, binds) in [
        ([("a", "org", "1h"), ("b", "app", "2h"), ("c", "key", "1h")], "b"),
        ([("a", "org", "2h"), ("b", "app", "1h"), ("c", "key", "1h")], "a"),
        ([("a", "org", "1h"), ("b", "app", "1h"), ("c", "key", "2h")], "c"),
    ] {
        let policies = policies.map(|(id, scope, window)| windowed(id, scope, window));
        let server = Server::start(&file_of(&policies), &[]);
        server.allowed(&body());
        let denial = server.denied(&body());
        assert_eq!(denial["policyId"], binds);
        assert_eq!(denial["policy"], binds);
        let wait = denial["retryAfterMs"].as_u64().unwrap();
        assert!((7_190_000..=7_200_000).contains(&wait), "{wait}");
        assert_eq!(denial["violated-policies"], json!(["a", "b", "c"]));
    }
}

#[test]
fn on_a_tie_the_broadest_binds() {
    // Windows aligned to the epoch end together.
    let policy = |id: &str, scope: &str| {
        format!("{{id: {id}, scope: {scope}, algorithm: fixed_window, limit: 1, window: 366d}}")
    };
    let policies = file_of(&[policy("a", "key"), policy("z", "org"), policy("m", "app")]);
    let server = Server::start(&policies, &[]);
    server.allowed(&body());
    let denial = server.denied(&body());
    assert_eq!(denial["policyId"], "z");
    assert_eq!(denial["scope"], "org");
}

#[test]
fn a_limit_that_never_admits_outlasts_every_wait() {
    let policies = file_of(&[hourly("long", "org", 1, ""), hourly("small", "key", 3, "")]);
    let server = Server::start(&policies, &[]);
    server.allowed(&body());
    let mut costly = body();
    costly["cost"] = 4.into();
    let denial = server.denied(&costly);
    assert_eq!(
        denial["policyId"], "long",
        "a tie of two that never admit: the broadest"
    );
    assert_eq!(denial["retryAfterMs"], Value::Null);
    costly["cost"] = 1.into();
    assert_eq!(server.denied(&costly)["policyId"], "long");
}

#[test]
fn one_that_never_admits_binds_over_a_broader_one_with_a_wait() {
    let policies = file_of(&[hourly("org", "org", 5, ""), hourly("key", "key", 3, "")]);
    let server = Server::start(&policies, &[]);
    let mut request = body();
    request["cost"] = 3.into();
    server.allowed(&request);
    request["cost"] = 4.into();
    let denial = server.denied(&request);
    assert_eq!(
        denial["policyId"], "key",
        "the org's limit has a wait, the key's has none"
    );
    assert_eq!(denial["error"], "cost_exceeds_limit");
    assert_eq!(denial["violated-policies"], json!(["org", "key"]));
}
