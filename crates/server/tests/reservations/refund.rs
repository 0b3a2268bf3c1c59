//! A check that is taken back.

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly};

#[test]
fn a_check_is_refunded_once() {
    let bucket = "{id: bucket, scope: org, algorithm: token_bucket, limit: 50, window: 1h}".to_owned();
    let server = Server::start(&file_of(&[hourly("org", "org", 50, ""), bucket]), &[]);
    let body = json!({"orgId": "acme", "cost": 20});
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"});
    server.post("/v1/refund", &refund).problem(404);
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
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
}

#[test]
fn a_refund_frees_the_key_for_the_next_try() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let body = json!({"orgId": "acme", "cost": 20});
    let check = |body: &Value| server.post_keyed("/v1/check", "k-1", body);
    let refund = || server.post("/v1/refund", &json!({"orgId": "acme", "idempotencyKey": "k-1"}));
    check(&body).expect(200);
    refund().expect(200);
    // Tried again it is charged as any, and a retry of that is the same.
    let again = check(&body).expect(200);
    assert_eq!(server.left("org", &body), 30);
    assert_eq!(check(&body).expect(200), again);
    assert_eq!(server.left("org", &body), 30);
    // A refund is of the latest check with the key, once.
    assert_eq!(refund().expect(200)["refundedCost"], 20);
    refund().problem(410);
    assert_eq!(server.left("org", &body), 50);
    // Free is free: it may be another request's, and that may be denied.
    check(&json!({"orgId": "acme", "cost": 50})).expect(200);
    check(&body).problem(422);
    assert_eq!(refund().expect(200)["refundedCost"], 50);
    server
        .post("/v1/check", &json!({"orgId": "acme", "cost": 40}))
        .expect(200);
    check(&body).expect(429);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 10);
}

#[test]
fn a_refund_that_is_sent_again_with_its_own_key_takes_nothing_of_the_next_try() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let body = json!({"orgId": "acme", "cost": 20});
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"});
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
    let done = server.post_keyed("/v1/refund", "r-1", &refund).expect(200);
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
    assert_eq!(server.post_keyed("/v1/refund", "r-1", &refund).expect(200), done);
    assert_eq!(server.left("org", &body), 30);
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

#[test]
fn a_denied_check_is_refunded_with_nothing() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let refund = |key: &str| server.post("/v1/refund", &json!({"orgId": "acme", "idempotencyKey": key}));
    let denied = json!({"orgId": "acme", "cost": 60});
    server.post_keyed("/v1/check", "k-1", &denied).problem(429);
    let look = json!({"orgId": "acme", "cost": 20, "dryRun": true});
    server.post_keyed("/v1/check", "k-2", &look).expect(200);
    for key in ["k-1", "k-2"] {
        assert_eq!(refund(key).expect(200)["refundedCost"], 0);
        refund(key).problem(410);
        // The key is free for another request.
        let body = json!({"orgId": "acme", "cost": 10});
        server.post_keyed("/v1/check", key, &body).expect(200);
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 30);
}
