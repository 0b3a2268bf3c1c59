//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`: of the limit that binds, else of the one with the least left.

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly};

fn body() -> Value {
    json!({"orgId": "acme", "appId": "web"})
}

fn start(policies: &[String]) -> Server {
    Server::start(&file_of(policies), &["--headers", "x"])
}

#[test]
fn of_an_allowed_request_the_limit_with_the_least_left_is_told() {
    let server = start(&[hourly("org", "org", 100, ""), hourly("app", "app", 5, "")]);
    let answer = server.check(&body());
    assert_eq!(answer.number("x-ratelimit-limit"), Some(5));
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(4));
}

#[test]
fn of_a_denied_request_the_limit_that_binds_is_told() {
    let long = "{id: org, scope: org, algorithm: fixed_window, anchor: first, limit: 9, window: 2h}";
    let server = start(&[long.to_owned(), hourly("app", "app", 8, "")]);
    let cost = |cost: u64| json!({"orgId": "acme", "appId": "web", "cost": cost});
    server.allowed(&cost(8));
    let now = tollgate::clock::now().seconds();
    let answer = server.check(&cost(2));
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.number("x-ratelimit-limit"),
        Some(9),
        "not the app's, which has less left"
    );
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(1));
    let reset = answer.number("x-ratelimit-reset").unwrap();
    assert!((now + 7_190..=now + 7_202).contains(&reset), "{reset}");
}

#[test]
fn a_limit_that_clients_may_not_see_is_not_told_even_when_it_binds() {
    let server = start(&[
        hourly("hidden", "org", 1, "expose: false"),
        hourly("app", "app", 5, ""),
    ]);
    server.allowed(&body());
    let answer = server.check(&body());
    assert_eq!(answer.status, 429);
    assert_eq!(answer.number("x-ratelimit-limit"), Some(5));
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(4));
    assert!(
        answer.number("retry-after").is_some(),
        "when to come back is no secret"
    );
}

#[test]
fn shadow_and_soft_limits_are_never_the_ones_that_bind() {
    let server = start(&[
        hourly("watched", "org", 2, "mode: shadow"),
        hourly("gentle", "org", 3, "mode: soft"),
        hourly("app", "app", 50, ""),
    ]);
    let answer = server.check(&body());
    assert_eq!(answer.number("x-ratelimit-limit"), Some(50));
}

#[test]
fn where_nothing_refuses_the_soft_limit_with_the_least_left_is_shown() {
    let server = start(&[
        hourly("watched", "org", 2, "mode: shadow"),
        hourly("gentle", "org", 3, "mode: soft"),
        hourly("gentler", "org", 5, "mode: soft"),
    ]);
    let answer = server.check(&body());
    assert_eq!(answer.number("x-ratelimit-limit"), Some(3));
    assert_eq!(answer.number("x-ratelimit-remaining"), Some(2));
}
