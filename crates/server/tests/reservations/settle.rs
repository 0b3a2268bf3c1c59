//! What goes back, and what is charged beyond.

use serde_json::{Value, json};

use crate::common::server::{limit, remaining};
use crate::common::{Server, file_of, hourly};
use crate::world::quota;

fn stack() -> Vec<String> {
    let of = |id: &str, algorithm: &str, rest: &str| {
        format!("{{id: {id}, scope: org, algorithm: {algorithm}, limit: 100, window: 1h{rest}}}")
    };
    vec![
        of("bucket", "token_bucket", ""),
        of("leaky", "leaky_bucket", ", burst: 120"),
        of("counter", "sliding_window_counter", ""),
        of("log", "sliding_window_log", ""),
        hourly("window", "app", 90, ""),
        quota("day", 80, ""),
    ]
}

fn lefts(server: &Server, body: &Value) -> Vec<u64> {
    let mut look = body.clone();
    look["cost"] = json!(0);
    let decision = server.allowed(&look);
    let ids = ["bucket", "leaky", "counter", "log", "window", "day"];
    ids.map(|id| remaining(&decision, id)).to_vec()
}

#[test]
fn the_rest_goes_back_at_every_level() {
    let server = Server::start(&file_of(&stack()), &[]);
    let body = json!({"orgId": "acme", "appId": "web", "cost": 40});
    let reserved = server.post("/v1/reserve", &body).expect(200);
    assert_eq!(lefts(&server, &body), [60, 80, 60, 60, 50, 40]);
    assert!(reserved["expiresAt"].as_str().unwrap().ends_with('Z'));
    let name = reserved["reservationId"].as_str().unwrap();
    let settled = server.settle(name, 15).expect(200);
    let expected = json!({
        "reservationId": name, "reservedCost": 40, "actualCost": 15, "returnedCost": 25, "extraCost": 0,
    });
    assert_eq!(settled, expected);
    assert_eq!(lefts(&server, &body), [85, 105, 85, 85, 75, 65]);
    // What went back can be used, and not more.
    server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 65}));
    server.denied(&json!({"orgId": "acme", "appId": "web"}));
}

#[test]
fn more_than_reserved_is_charged_if_there_is_room() {
    let server = Server::start(&file_of(&stack()), &[]);
    let body = json!({"orgId": "acme", "appId": "web", "cost": 10});
    let name = server.reserve(&body);
    let refused = server.settle(&name, 81);
    let detail = refused.problem(409);
    assert!(detail.contains("stays") && detail.contains("day"), "{detail}");
    // Nothing was charged anywhere, and it is still open.
    assert_eq!(lefts(&server, &body), [90, 110, 90, 90, 80, 70]);
    let settled = server.settle(&name, 30).expect(200);
    assert_eq!(
        (&settled["extraCost"], &settled["returnedCost"]),
        (&json!(20), &json!(0))
    );
    assert_eq!(lefts(&server, &body), [70, 90, 70, 70, 60, 50]);
}

#[test]
fn a_reservation_is_settled_once() {
    let server = Server::start(&file_of(&stack()), &[]);
    let body = json!({"orgId": "acme", "appId": "web", "cost": 10});
    let name = server.reserve(&body);
    let settle = json!({"reservationId": name, "actualCost": 4});
    let first = server.post_keyed("/v1/settle", "s-1", &settle);
    let expected = first.expect(200);
    server.settle(&name, 4).problem(410);
    server.settle(&name, 0).problem(410);
    assert_eq!(
        server.post_keyed("/v1/settle", "s-1", &settle).expect(200),
        expected
    );
    assert_eq!(lefts(&server, &body)[5], 76);
}

#[test]
fn a_denied_reserve_holds_nothing() {
    let server = Server::start(&file_of(&stack()), &[]);
    let denied = server.post(
        "/v1/reserve",
        &json!({"orgId": "acme", "appId": "web", "cost": 85}),
    );
    let denied = denied.expect(429);
    assert_eq!(
        (&denied["allowed"], &denied["reservationId"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(denied["policy"], "day");
    let look = json!({"orgId": "acme", "appId": "web", "cost": 5, "dryRun": true});
    let dry = server.post("/v1/reserve", &look).expect(200);
    assert_eq!(
        (&dry["allowed"], &dry["reservationId"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(lefts(&server, &look), [100, 120, 100, 100, 90, 80]);
}

#[test]
fn each_unit_is_settled_by_itself() {
    let policies = [
        hourly("requests", "org", 10, ""),
        hourly("tokens", "org", 1_000, "unit: tokens"),
        hourly("bytes", "org", 500, "unit: bytes"),
    ];
    let server = Server::start(&file_of(&policies), &[]);
    let body = json!({"orgId": "acme", "costs": {"tokens": 400, "bytes": 100}});
    let name = server.reserve(&body);
    let settle = |costs: Value| {
        let mut body = json!({"reservationId": name});
        body.as_object_mut()
            .unwrap()
            .extend(costs.as_object().unwrap().clone());
        server.post("/v1/settle", &body)
    };
    settle(json!({})).problem(400);
    settle(json!({"actualCosts": {"seconds": 1}})).problem(400);
    settle(json!({"actualCosts": {"tokens": 100, "bytes": 501}})).problem(409);
    settle(json!({"actualCosts": {"tokens": 150, "bytes": 130}})).expect(200);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 0}));
    let left = ["requests", "tokens", "bytes"].map(|id| remaining(&decision, id));
    assert_eq!(left, [9, 850, 370]);
    let name = server.reserve(&body);
    server.settle(&name, 3).expect(200);
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 0}));
    assert_eq!(limit(&decision, "requests")["remaining"], 6);
    assert_eq!(limit(&decision, "tokens")["remaining"], 450);
}

#[test]
fn what_is_wrong_is_said() {
    let server = Server::start(&file_of(&stack()), &[]);
    for ttl in [0, 3_600_001] {
        let body = json!({"orgId": "acme", "ttlMs": ttl});
        assert!(server.post("/v1/reserve", &body).problem(400).contains("ttlMs"));
    }
    assert!(server.check(&json!({"ttlMs": 5})).problem(400).contains("ttlMs"));
    server.post("/v1/settle", &json!({"actualCost": 5})).problem(400);
    server.post("/v1/reserve", &json!({"orgId": ""})).problem(400);
    let long = "x".repeat(20_000);
    server
        .post("/v1/reserve", &json!({"scopes": [long]}))
        .problem(413);
    assert_eq!(server.ask("GET", "/v1/settle").send().status, 405);
    // The longest that is allowed, and all that is left out.
    server.reserve(&json!({"ttlMs": 3_600_000}));
}
