//! `POST /v1/check/batch`: many decisions, in order, each on its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::server::remaining;
use common::{Answer, Server, file_of, hourly};
use serde_json::{Value, json};

fn send(server: &Server, body: impl Into<Vec<u8>>) -> Answer {
    server.ask("POST", "/v1/check/batch").body(body).send()
}

fn decisions(server: &Server, requests: &[Value]) -> Vec<Value> {
    let answer = send(server, json!({"requests": requests}).to_string());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.expect(200);
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    let decisions = body["decisions"].as_array().unwrap().clone();
    assert_eq!(decisions.len(), requests.len());
    decisions
}

fn server() -> Server {
    Server::start(
        &file_of(&[hourly("org", "org", 5, ""), hourly("app", "app", 3, "")]),
        &[],
    )
}

#[test]
fn requests_are_decided_in_order_and_each_on_its_own() {
    let server = server();
    let app = |app: &str, cost: u64| json!({"orgId": "acme", "appId": app, "cost": cost});
    let decisions = decisions(
        &server,
        &[
            app("a", 2),
            app("a", 2),
            app("b", 3),
            app("c", 1),
            json!({"orgId": "globex"}),
        ],
    );
    let allowed: Vec<bool> = decisions.iter().map(|d| d["allowed"] == true).collect();
    assert_eq!(allowed, [true, false, true, false, true]);
    assert_eq!(decisions[1]["policyId"], "app");
    assert_eq!(
        remaining(&decisions[1], "org"),
        3,
        "the refused one charged nothing"
    );
    assert_eq!(decisions[3]["policyId"], "org");
    assert_eq!(remaining(&decisions[3], "app"), 3);
    assert_eq!(remaining(&decisions[4], "org"), 4);
}

#[test]
fn a_refused_item_has_the_members_of_a_refusal() {
    let server = server();
    let decisions = decisions(&server, &[json!({"orgId": "acme", "cost": 9})]);
    let denial = &decisions[0];
    for name in [
        "allowed",
        "scope",
        "policyId",
        "remaining",
        "retryAfterMs",
        "delayMs",
        "degraded",
        "limits",
        "type",
        "title",
        "status",
        "detail",
        "violated-policies",
        "error",
        "policy",
        "limit_type",
        "message",
        "retry_after",
        "retry_after_seconds",
    ] {
        assert!(denial.get(name).is_some(), "{name} is missing: {denial}");
    }
    assert_eq!(denial["error"], "cost_exceeds_limit");
}

#[test]
fn items_may_look_or_run_dry() {
    let server = server();
    let decisions = decisions(
        &server,
        &[
            json!({"orgId": "acme", "dryRun": true, "cost": 5}),
            json!({"orgId": "acme", "cost": 0}),
            json!({"orgId": "acme", "cost": 5}),
        ],
    );
    let left: Vec<u64> = decisions.iter().map(|d| remaining(d, "org")).collect();
    assert_eq!(left, [0, 5, 0]);
}

#[test]
fn an_invalid_item_is_named_by_its_index_and_nothing_is_charged() {
    let server = server();
    let good = json!({"orgId": "acme"});
    for bad in [
        json!({"orgId": ""}),
        json!({"orgId": "acme", "cost": -1}),
        json!({"orgId": "acme", "tenant": 1}),
        json!({"ip": "nowhere"}),
        json!({"at": 0}),
        json!(null),
        json!([]),
        json!("acme"),
    ] {
        let body = json!({"requests": [good, good, bad, good]});
        let problem = send(&server, body.to_string()).problem(400);
        assert!(problem.contains("requests[2]"), "{bad}: {problem}");
    }
    assert_eq!(server.left("org", &good), 5);
}

#[test]
fn an_unknown_api_key_in_an_item_is_401_and_nothing_is_charged() {
    let server = server();
    let body = json!({"requests": [{"orgId": "acme"}, {"apiKey": "tg_nobody"}]});
    let problem = send(&server, body.to_string()).expect(401);
    assert!(
        problem["detail"].as_str().unwrap().contains("requests[1]"),
        "{problem}"
    );
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 5);
}

#[test]
fn a_thousand_requests_fit_and_one_more_does_not() {
    let server = Server::start(&file_of(&[hourly("org", "org", 5_000, "")]), &[]);
    let of = |count: usize| vec![json!({"orgId": "acme"}); count];
    let decisions = decisions(&server, &of(1_000));
    assert_eq!(remaining(&decisions[999], "org"), 4_000);
    let problem = send(&server, json!({"requests": of(1_001)}).to_string()).problem(400);
    assert!(problem.contains("1000"), "{problem}");
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 4_000);
}

#[test]
fn an_empty_list_is_answered_by_an_empty_list() {
    assert_eq!(decisions(&server(), &[]), Vec::<Value>::new());
}

#[test]
fn what_is_not_a_batch_is_an_error() {
    let server = server();
    for body in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"requests":null}"#,
        r#"{"requests":{}}"#,
        r#"{"requests":[{}],"more":1}"#,
        r#"{"requests":[{}],"requests":[{}]}"#,
        r#"{"requests":[{},]}"#,
        r#"[[{"orgId":"acme"}]]"#,
        r#"{"request":[]}"#,
    ] {
        send(&server, body).problem(400);
    }
    server.ask("GET", "/v1/check/batch").send().problem(405);
}

#[test]
fn a_batch_carries_no_headers_of_any_one_decision() {
    let server = server();
    let body = json!({"requests": [{"orgId": "acme", "cost": 9}]});
    assert_eq!(
        send(&server, body.to_string()).limit_headers(),
        Vec::<&str>::new()
    );
}

/// A quota of one org has to be asked of the ledger first; what comes behind it in the batch must not go before it where
/// both count for one limit.
#[test]
fn order_is_kept_across_orgs_that_have_a_limit_in_common() {
    let quota = "{id: day, scope: org, orgTier: Gold, limit: 100, window: day}";
    let common = "{id: all, scope: global, limit: 1, window: 1h}";
    let policies = format!(
        "tiers: [{{tier: Gold}}]\norgs: [{{orgId: a, tier: Gold}}]\npolicies:\n- {quota}\n- {common}\n"
    );
    let server = Server::start(&policies, &[]);
    let decisions = decisions(&server, &[json!({"orgId": "a"}), json!({"orgId": "b"})]);
    assert_eq!(
        (&decisions[0]["allowed"], &decisions[1]["allowed"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn an_item_of_an_org_that_asks_too_often_has_all_members_of_a_decision() {
    let server = Server::start("policies: []\n", &["--max-org-rate", "1"]);
    let decisions = decisions(&server, &vec![json!({"orgId": "acme"}); 20]);
    let refused = decisions.last().unwrap();
    assert_eq!(refused["allowed"], false);
    assert_eq!(
        (&refused["retryAfterMs"], &refused["limits"]),
        (&1000.into(), &json!([]))
    );
    for member in ["scope", "policyId", "remaining", "delayMs", "degraded"] {
        assert!(refused.get(member).is_some(), "{member}");
    }
}
