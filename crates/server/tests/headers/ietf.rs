//! `RateLimit-Policy` and `RateLimit`, read as the structured fields they are.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::{Answer, Server, file_of, hourly, noon_zone};

/// An item of the list: the policy and its parameters.
type Item = (String, BTreeMap<String, i64>);

/// A header as a list of strings with whole numbers for parameters.
pub fn items(answer: &Answer, header: &str) -> Vec<Item> {
    let text = answer
        .header(header)
        .unwrap_or_else(|| panic!("no {header}: {:?}", answer.headers));
    let list: sfv::List = sfv::Parser::new(text)
        .parse()
        .unwrap_or_else(|error| panic!("{header}: {text}: {error}"));
    let item = |entry: sfv::ListEntry| {
        let sfv::ListEntry::Item(item) = entry else {
            panic!("{header}: {text}: a list within the list");
        };
        let id = item.bare_item.as_string().expect("a string").as_str().to_owned();
        let parameter = |(key, value): (sfv::Key, sfv::BareItem)| {
            let value = value.as_integer().expect("a whole number");
            (key.as_str().to_owned(), i64::from(value))
        };
        (id, item.params.into_iter().map(parameter).collect())
    };
    list.into_iter().map(item).collect()
}

fn parameters(answer: &Answer, header: &str, policy: &str) -> BTreeMap<String, i64> {
    let found = items(answer, header).into_iter().find(|(id, _)| id == policy);
    found
        .unwrap_or_else(|| panic!("{header} does not name {policy}"))
        .1
}

/// The `t` of a policy after a cost was asked of it.
fn told(server: &Server, policy: &str, cost: u64) -> i64 {
    let answer = server.check(&json!({"orgId": "acme", "cost": cost}));
    parameters(&answer, "ratelimit", policy)["t"]
}

fn only(policy: &str) -> Server {
    Server::start(&file_of(&[policy.to_owned()]), &["--headers", "ietf"])
}

#[test]
fn every_enforced_limit_is_an_item_of_both_from_broad_to_narrow() {
    let server = Server::start(
        &file_of(&[
            hourly("key", "key", 50, ""),
            hourly("app", "app", 100, ""),
            hourly("org", "org", 1_000, ""),
        ]),
        &[],
    );
    let answer = server.check(&json!({"orgId": "acme", "appId": "web", "keyId": "k", "cost": 7}));
    let numbers = |pairs: &[(&str, i64)]| -> BTreeMap<String, i64> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    };
    let policies = [("org", 1_000), ("app", 100), ("key", 50)]
        .map(|(id, limit)| (id.to_owned(), numbers(&[("q", limit), ("w", 3_600)])));
    assert_eq!(items(&answer, "ratelimit-policy"), policies);
    let states = [("org", 993), ("app", 93), ("key", 43)]
        .map(|(id, left)| (id.to_owned(), numbers(&[("r", left), ("t", 3_600)])));
    assert_eq!(items(&answer, "ratelimit"), states);
}

#[test]
fn the_window_is_in_seconds_and_left_out_under_one() {
    for (window, seconds) in [
        ("1s", Some(1)),
        ("90s", Some(90)),
        ("366d", Some(31_622_400)),
        ("999ms", None),
        ("1ms", None),
    ] {
        let server = only(&format!("{{id: p, scope: org, limit: 9, window: {window}}}"));
        let answer = server.check(&json!({"orgId": "acme"}));
        let policy = parameters(&answer, "ratelimit-policy", "p");
        assert_eq!(policy.get("w").copied(), seconds, "{window}");
        assert_eq!(policy["q"], 9);
    }
}

#[test]
fn a_quotas_window_is_as_long_as_its_period_is_now() {
    let zone = noon_zone();
    let length = |window: &str| {
        let server = only(&format!(
            "{{id: p, scope: org, limit: 9, window: {window}, timezone: {zone}}}"
        ));
        let answer = server.check(&json!({"orgId": "acme"}));
        parameters(&answer, "ratelimit-policy", "p")["w"]
    };
    assert_eq!(length("day"), 86_400);
    assert_eq!(length("week"), 604_800);
    let month = length("month");
    assert!((28..=31).any(|days| month == days * 86_400), "{month}");
}

#[test]
fn of_windows_and_quotas_t_is_the_time_to_the_end() {
    let server = only(&hourly("p", "org", 9, ""));
    assert_eq!(told(&server, "p", 1), 3_600);
    let zone = noon_zone();
    let server = only(&format!(
        "{{id: p, scope: org, limit: 9, window: day, timezone: {zone}}}"
    ));
    let seconds = told(&server, "p", 1);
    assert!(
        (11 * 3_600..=12 * 3_600).contains(&seconds),
        "{seconds} from noon to midnight"
    );
}

#[test]
fn of_buckets_t_is_the_time_until_one_more_unit() {
    for algorithm in ["token_bucket", "leaky_bucket"] {
        let server = only(&format!(
            "{{id: p, scope: org, algorithm: {algorithm}, limit: 60, burst: 10, window: 1h}}"
        ));
        assert_eq!(told(&server, "p", 0), 0, "{algorithm}: there is no more to come");
        let seconds = told(&server, "p", 4);
        assert!((55..=60).contains(&seconds), "{algorithm}: {seconds}");
    }
}

#[test]
fn of_sliding_windows_t_is_the_time_until_one_more_unit() {
    let server = only("{id: p, scope: org, algorithm: sliding_window_log, limit: 9, window: 1h}");
    let seconds = told(&server, "p", 4);
    assert!(
        (3_595..=3_600).contains(&seconds),
        "{seconds}: until the first leaves"
    );
    let server = only("{id: p, scope: org, algorithm: sliding_window_counter, limit: 100, window: 366d}");
    let answer = server.check(&json!({"orgId": "acme", "cost": 100}));
    let seconds = parameters(&answer, "ratelimit", "p")["t"];
    let to_end = answer.json()["limits"][0]["resetMs"].as_i64().unwrap() / 1_000;
    let fading = 366 * 86_400 / 100;
    assert!(
        (to_end + fading - 5..=to_end + fading + 5).contains(&seconds),
        "{seconds}: the first hundredth fades after the window's end"
    );
}

#[test]
fn of_a_violated_limit_t_is_its_own_wait() {
    let server = only("{id: p, scope: org, limit: 60, burst: 10, window: 1h}");
    told(&server, "p", 8);
    let seconds = told(&server, "p", 7);
    assert!(
        (295..=300).contains(&seconds),
        "{seconds}: five more at one a minute"
    );
}

#[test]
fn a_violated_limit_that_never_admits_has_no_t() {
    let server = only(&hourly("p", "org", 5, ""));
    let answer = server.check(&json!({"orgId": "acme", "cost": 6}));
    assert_eq!(answer.status, 429);
    let state = parameters(&answer, "ratelimit", "p");
    assert_eq!(state.get("r"), Some(&5));
    assert_eq!(state.get("t"), None);
}

#[test]
fn a_wait_too_long_for_a_structured_field_is_told_as_the_longest() {
    let largest = 999_999_999_999_999_u64;
    let server = only(&format!(
        "{{id: p, scope: org, limit: 1, burst: {largest}, window: 366d}}"
    ));
    let body = json!({"orgId": "acme", "cost": largest});
    server.allowed(&body);
    let answer = server.check(&body);
    assert_eq!(answer.status, 429);
    assert_eq!(
        parameters(&answer, "ratelimit", "p")["t"],
        i64::try_from(largest).unwrap()
    );
}

#[test]
fn hidden_shadow_soft_and_global_limits_are_no_items() {
    let server = Server::start(
        &file_of(&[
            hourly("everyone", "global", 5, ""),
            hourly("hidden", "org", 5, "expose: false"),
            hourly("watched", "org", 5, "mode: shadow"),
            hourly("gentle", "org", 5, "mode: soft"),
            hourly("shown", "org", 9, ""),
        ]),
        &["--headers", "ietf"],
    );
    let answer = server.check(&json!({"orgId": "acme"}));
    let names =
        |header: &str| -> Vec<String> { items(&answer, header).into_iter().map(|(id, _)| id).collect() };
    assert_eq!(names("ratelimit-policy"), ["shown"]);
    assert_eq!(names("ratelimit"), ["shown"]);
    let decision = answer.json();
    assert_eq!(
        decision["limits"].as_array().map(Vec::len),
        Some(5),
        "the body shows all"
    );
    assert_eq!(decision["remaining"], 4);
}

#[test]
fn a_global_limit_can_be_shown() {
    let server = only(&hourly("everyone", "global", 5, "expose: true"));
    let answer = server.check(&Value::Object(serde_json::Map::new()));
    assert_eq!(parameters(&answer, "ratelimit", "everyone")["r"], 4);
}
