//! A check that is taken back.

use serde_json::json;

use crate::common::{Server, file_of, hourly};

#[test]
fn a_check_is_refunded_once() {
    let bucket = "{id: bucket, scope: org, algorithm: token_bucket, limit: 50, window: 1h}".to_owned();
    let server = Server::start(&file_of(&[hourly("org", "org", 50, ""), bucket]), &[]);
    let body = json!({"orgId": "acme", "cost": 20});
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"});
    server.post("/v1/refund", &refund).problem(404);
    let first = server.post_keyed("/v1/check", "k-1", &body).expect(200);
    assert_eq!(server.left("org", &body), 30);
    server
        .post("/v1/refund", &json!({"orgId": "other", "idempotencyKey": "k-1"}))
        .problem(404);
    // The refund may have a key of its own.
    let done = server.post_keyed("/v1/refund", "r-1", &refund).expect(200);
    assert_eq!(done, json!({"idempotencyKey": "k-1", "refundedCost": 20}));
    assert_eq!(server.post_keyed("/v1/refund", "r-1", &refund).expect(200), done);
    server.post("/v1/refund", &refund).problem(410);
    for policy in ["org", "bucket"] {
        assert_eq!(server.left(policy, &body), 50);
    }
    // The check's key is still the check's.
    assert_eq!(server.post_keyed("/v1/check", "k-1", &body).expect(200), first);
    assert_eq!(server.left("org", &body), 50);
}

#[test]
fn the_header_may_name_the_check() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let body = json!({"orgId": "acme", "cost": 20});
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
    server
        .post_keyed("/v1/refund", "k-1", &json!({"orgId": "acme"}))
        .expect(200);
    assert_eq!(server.left("org", &body), 50);
    server.post("/v1/refund", &json!({"orgId": "acme"})).problem(400);
}

#[test]
fn only_a_check_that_was_charged_is_refunded() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let refund = |key: &str| server.post("/v1/refund", &json!({"orgId": "acme", "idempotencyKey": key}));
    server
        .post_keyed("/v1/check", "k-1", &json!({"orgId": "acme", "cost": 60}))
        .expect(429);
    assert_eq!(refund("k-1").expect(200)["refundedCost"], 0);
    refund("k-1").problem(410);
    server
        .post_keyed("/v1/check", "k-3", &json!({"orgId": "acme", "dryRun": true}))
        .expect(200);
    assert_eq!(refund("k-3").expect(200)["refundedCost"], 0);
    server
        .post_keyed("/v1/reserve", "k-2", &json!({"orgId": "acme", "cost": 10}))
        .expect(200);
    refund("k-2").problem(422);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 40);
}
