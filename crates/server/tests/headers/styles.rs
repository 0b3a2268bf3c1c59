//! Which styles are written.

use serde_json::json;

use crate::common::{Answer, Server, file_of, hourly};

const IETF: [&str; 2] = ["ratelimit", "ratelimit-policy"];
const X: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
const LEVELS: [&str; 2] = ["x-ratelimit-org-limit", "x-ratelimit-org-remaining"];
const LEGACY: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const DENIAL: [&str; 2] = ["retry-after", "x-ratelimit-scope"];

/// The headers of an allowed request and of a denied one.
fn headers(flags: &[&str]) -> (Answer, Answer) {
    let server = Server::start(&file_of(&[hourly("org", "org", 1, "")]), flags);
    let body = json!({"orgId": "acme"});
    (server.check(&body), server.check(&body))
}

fn assert_styles(flags: &[&str], styles: &[&[&str]]) {
    let (allowed, denied) = headers(flags);
    let mut expected = styles.concat();
    expected.sort_unstable();
    assert_eq!(allowed.limit_headers(), expected, "{flags:?}");
    expected.extend(DENIAL);
    expected.sort_unstable();
    assert_eq!(denied.status, 429);
    assert_eq!(denied.limit_headers(), expected, "{flags:?}");
}

#[test]
fn each_style_alone_writes_its_own_headers_and_no_others() {
    assert_styles(&["--headers", "ietf"], &[&IETF]);
    assert_styles(&["--headers", "x"], &[&X]);
    assert_styles(&["--headers", "levels"], &[&LEVELS]);
    assert_styles(&["--headers", "legacy"], &[&LEGACY]);
}

#[test]
fn styles_can_be_had_together_and_three_are_the_default() {
    assert_styles(&[], &[&IETF, &X, &LEVELS]);
    assert_styles(
        &["--headers", "ietf, x,levels,legacy"],
        &[&IETF, &X, &LEVELS, &LEGACY],
    );
    assert_styles(&["--headers", "x,legacy"], &[&X, &LEGACY]);
}

#[test]
fn off_writes_nothing_but_what_a_denial_cannot_do_without() {
    assert_styles(&["--headers", "off"], &[]);
}

#[test]
fn off_goes_with_no_other_style_and_an_unknown_one_is_an_error() {
    for list in ["off,x", "x,off", "draft7", ""] {
        let run = crate::common::run(&["serve", "--http", "127.0.0.1:0", "--headers", list]);
        assert!(run.complaint(2).contains("--headers"), "{list}: {run:?}");
    }
}

#[test]
fn legacy_counts_seconds_and_x_gives_the_instant() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 9, "")]),
        &["--headers", "legacy,x"],
    );
    let before = tollgate::clock::now().seconds();
    let answer = server.check(&json!({"orgId": "acme"}));
    assert_eq!(answer.number("ratelimit-limit"), Some(9));
    assert_eq!(answer.number("ratelimit-remaining"), Some(8));
    assert_eq!(answer.number("ratelimit-reset"), Some(3_600));
    let reset = answer.number("x-ratelimit-reset").unwrap();
    let after = tollgate::clock::now().seconds();
    assert!(
        (before + 3_600..=after + 3_601).contains(&reset),
        "{before} {reset}"
    );
}

#[test]
fn without_a_limit_that_applies_there_are_no_headers() {
    let server = Server::start(&file_of(&[hourly("org", "org", 9, "")]), &[]);
    let answer = server.check(&json!({"ip": "203.0.113.9"}));
    assert_eq!(answer.limit_headers(), Vec::<&str>::new());
}
