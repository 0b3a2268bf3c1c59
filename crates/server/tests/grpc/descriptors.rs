//! `ShouldRateLimit` as Envoy relies on it.

use serde_json::Value;
use tonic::Code;

use crate::asker::{Asker, codes, descriptor, edge, gives_back, hits, left, limited};
use crate::common::{Server, file_of, hourly, wait_for};

fn server(rest: &[&str]) -> Server {
    let policies = file_of(&[
        "{id: by-address, scope: 'descriptor:remote_address', match: {domain: edge}, algorithm: fixed_window, limit: 3, window: 365d}".to_owned(),
        "{id: wide, scope: 'descriptor:wide', match: {domain: edge}, algorithm: fixed_window, limit: 999999999999999, window: 365d}".to_owned(),
        hourly("org", "org", 5, ""),
    ]);
    Server::start(&policies, rest)
}

const ADDRESS: [(&str, &str); 1] = [("remote_address", "203.0.113.9")];

#[test]
fn statuses_come_in_order_with_limit_rest_and_reset() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let answer = asker.descriptors(vec![descriptor(&[("nobody", "knows")]), descriptor(&ADDRESS)]);
    assert_eq!(codes(&answer), (true, vec![true, true]));
    let unmatched = &answer.statuses[0];
    assert_eq!(
        (unmatched.current_limit.clone(), unmatched.limit_remaining),
        (None, 0)
    );
    assert_eq!(unmatched.duration_until_reset, None);
    let matched = &answer.statuses[1];
    let limit = matched.current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit, &*limit.name),
        (3, 6, "by-address")
    );
    assert_eq!(matched.limit_remaining, 2);
    let year = 365 * 86_400;
    let now = i64::try_from(tollgate::clock::now().seconds()).unwrap();
    let reset = matched.duration_until_reset.unwrap().seconds;
    assert!((0..=2).contains(&(year - now % year + 1 - reset)), "{reset}");
    assert!(answer.response_headers_to_add.is_empty() && answer.raw_body.is_empty());
}

#[test]
fn a_denial_has_our_body_and_retry_after() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let ask = || asker.descriptors(vec![hits(descriptor(&ADDRESS), 3)]);
    assert_eq!(codes(&ask()), (true, vec![true]));
    let denied = ask();
    assert_eq!(codes(&denied), (false, vec![false]));
    assert_eq!(denied.statuses[0].limit_remaining, 0);
    let body: Value = serde_json::from_slice(&denied.raw_body).unwrap();
    assert_eq!(
        (&body["status"], &body["policy"]),
        (&429.into(), &"by-address".into())
    );
    let header = |name: &str| {
        let found = denied
            .response_headers_to_add
            .iter()
            .find(|header| header.key == name);
        found.map(|header| header.value.clone())
    };
    assert_eq!(header("retry-after"), Some(body["retry_after"].to_string()));
    assert_eq!(
        header("content-type").as_deref(),
        Some("application/problem+json")
    );
    assert_eq!(
        header("x-ratelimit-scope").as_deref(),
        Some("descriptor:remote_address")
    );
    assert_eq!(header("ratelimit"), None);
}

#[test]
fn with_rls_headers_every_answer_has_them_and_they_are_not_clamped() {
    for flags in [
        ["--rls-headers", "--headers=ietf,x"],
        ["--rls-headers=true", "--headers=ietf,x"],
    ] {
        let server = server(&flags);
        let asker = Asker::of(&server);
        let answer = asker.descriptors(vec![descriptor(&[("wide", "x")])]);
        let status = &answer.statuses[0];
        assert_eq!(status.limit_remaining, u32::MAX);
        assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, u32::MAX);
        let header = |name: &str| {
            let found = answer
                .response_headers_to_add
                .iter()
                .find(|header| header.key == name);
            found.map_or("", |header| &*header.value).to_owned()
        };
        assert_eq!(header("x-ratelimit-limit"), "999999999999999");
        assert_eq!(header("x-ratelimit-remaining"), "999999999999998");
        assert!(header("ratelimit-policy").starts_with("\"wide\";q=999999999999999"));
        assert!(answer.raw_body.is_empty());
    }
}

#[test]
fn hits_may_be_more_than_the_message_can_show() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let denied = asker.descriptors(vec![hits(descriptor(&ADDRESS), u64::MAX)]);
    assert_eq!(codes(&denied), (false, vec![false]));
    assert!(
        !denied
            .response_headers_to_add
            .iter()
            .any(|header| header.key == "retry-after"),
        "it never fits"
    );
    assert_eq!(
        left(&asker.descriptors(vec![descriptor(&ADDRESS)]).statuses[0]),
        2
    );
}

#[test]
fn negative_hits_give_back_and_never_more_than_was_used() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let take = |value| asker.descriptors(vec![hits(descriptor(&ADDRESS), value)]);
    assert!(codes(&take(3)).0);
    assert!(!codes(&take(1)).0);
    let given = asker.descriptors(vec![gives_back(descriptor(&ADDRESS), 2)]);
    assert_eq!(codes(&given), (true, vec![true]));
    assert_eq!(left(&given.statuses[0]), 2);
    assert_eq!(left(&take(1).statuses[0]), 1);
    let given = asker.descriptors(vec![gives_back(descriptor(&ADDRESS), u64::MAX)]);
    assert_eq!(left(&given.statuses[0]), 3, "no more than there ever is");
    assert_eq!(left(&take(0).statuses[0]), 3);
    let untouched = asker.descriptors(vec![gives_back(
        descriptor(&[("remote_address", "198.51.100.1")]),
        5,
    )]);
    assert_eq!(codes(&untouched), (true, vec![true]));
    let mut request = edge(vec![gives_back(descriptor(&ADDRESS), 0)]);
    request.descriptors[0].hits_addend = None;
    request.hits_addend = 1;
    take(2);
    assert_eq!(
        left(&asker.envoy(request).unwrap().statuses[0]),
        2,
        "the request's own, if the descriptor has none"
    );
}

#[test]
fn who_is_refused_gives_nothing_back_either() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let other = || descriptor(&[("remote_address", "198.51.100.1")]);
    asker.descriptors(vec![hits(descriptor(&ADDRESS), 3), hits(other(), 2)]);
    let answer = asker.descriptors(vec![descriptor(&ADDRESS), gives_back(other(), 2)]);
    assert_eq!(codes(&answer), (false, vec![false, true]));
    assert_eq!(left(&answer.statuses[1]), 1);
}

#[test]
fn a_limit_in_the_descriptor_stands_in_for_others() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let day = 4;
    let ask = |limit: u32, address: &str| {
        asker.descriptors(vec![limited(
            descriptor(&[("remote_address", address), ("org", "acme")]),
            limit,
            day,
        )])
    };
    let answer = ask(2, "203.0.113.9");
    let status = &answer.statuses[0];
    let shown = status.current_limit.as_ref().unwrap();
    assert_eq!(
        (shown.requests_per_unit, shown.unit, status.limit_remaining),
        (2, day, 1)
    );
    assert!(codes(&ask(2, "203.0.113.9")).0);
    assert!(!codes(&ask(2, "203.0.113.9")).0);
    assert!(codes(&ask(2, "198.51.100.1")).0, "another value is another count");
    assert_eq!(
        left(&ask(5, "203.0.113.9").statuses[0]),
        2,
        "a new limit keeps the count"
    );
    assert_eq!(
        left(&asker.descriptors(vec![descriptor(&ADDRESS)]).statuses[0]),
        2,
        "the policy was not charged"
    );
    for unit in [0, 99] {
        let question = edge(vec![limited(descriptor(&ADDRESS), 5, unit)]);
        assert_eq!(asker.envoy(question).unwrap_err().code(), Code::InvalidArgument);
    }
}

#[test]
fn a_question_about_nothing_is_an_error() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    let mut no_domain = edge(vec![descriptor(&ADDRESS)]);
    no_domain.domain.clear();
    for question in [
        no_domain,
        edge(Vec::new()),
        edge(vec![descriptor(&[])]),
        edge(vec![descriptor(&[("", "x")])]),
    ] {
        assert_eq!(asker.envoy(question).unwrap_err().code(), Code::InvalidArgument);
    }
}

#[test]
fn decisions_and_requests_are_counted() {
    let server = server(&[]);
    let asker = Asker::of(&server);
    for _ in 0..4 {
        asker.descriptors(vec![descriptor(&ADDRESS)]);
    }
    wait_for("all to be counted", || {
        let requests = server.counted("tollgate_request_seconds_count{protocol=\"grpc\"}");
        (requests == 4).then_some(())
    });
    let series =
        "tollgate_decisions_total{outcome=\"denied\",scope=\"descriptor\",tier=\"default\",class=\"none\"}";
    assert_eq!(server.counted(series), 1, "{}", server.metrics());
}

#[test]
fn a_cost_beyond_the_bound_is_refused_and_what_is_asked_is_in_the_statement() {
    let server = server(&[]);
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &serde_json::json!({}));
    let asker = Asker::of(&server);
    let org = |cost: &str| descriptor(&[("org", "acme"), ("cost", cost)]);
    for beyond in [
        org("1000000000000000"),
        hits(org("1"), 1_000_000_000_000_000),
        hits(org("1000000000"), 1_000_000_000),
    ] {
        let answer = asker.descriptors(vec![org("1"), beyond]);
        assert_eq!(codes(&answer), (false, vec![true, false]));
        let body: Value = serde_json::from_slice(&answer.raw_body).unwrap();
        assert!(
            body["detail"].as_str().unwrap().contains("999999999999999"),
            "{body}"
        );
    }
    assert!(asker.codes(vec![org("2"), descriptor(&ADDRESS)]).0);
    assert!(asker.codes(vec![hits(org("1"), 3)]).0);
    assert!(!asker.codes(vec![org("1")]).0);
    wait_for("usage to be told", || {
        let statement = admin.get("/v1/orgs/acme/statement").expect(200);
        let sums = ["allowed", "denied", "cost"].map(|name| statement[name].as_u64().unwrap());
        (sums == [2, 1, 5]).then_some(())
    });
}
