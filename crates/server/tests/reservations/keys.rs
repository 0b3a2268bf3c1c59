//! `Idempotency-Key`: what is sent again counts once.

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly, wait_for};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[])
}

#[test]
fn the_same_again_is_the_same_answer() {
    let server = server();
    let body = json!({"orgId": "acme", "cost": 5});
    for route in ["/v1/check", "/v1/reserve"] {
        let first = server.post_keyed(route, route, &body);
        let again = server.post_keyed(route, route, &body);
        assert_eq!((first.status, &first.body), (200, &again.body));
        let known = |name: &str| !matches!(name, "date");
        let heads = [&first, &again].map(|answer| {
            let headers = answer.headers.iter().filter(|(name, _)| known(name));
            headers.cloned().collect::<Vec<_>>()
        });
        assert_eq!(heads[0], heads[1]);
    }
    assert_eq!(server.left("org", &body), 40);
    // Another org's key is another key, and so is another key.
    server
        .post_keyed("/v1/check", "/v1/check", &json!({"orgId": "other", "cost": 5}))
        .expect(200);
    server.post_keyed("/v1/check", "k-2", &body).expect(200);
    assert_eq!(server.left("org", &body), 35);
}

#[test]
fn another_body_is_refused() {
    let server = server();
    let body = json!({"orgId": "acme", "cost": 5});
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
    let other = json!({"orgId": "acme", "cost": 6});
    assert!(
        server
            .post_keyed("/v1/check", "k-1", &other)
            .problem(422)
            .contains("another request")
    );
    server
        .post_keyed("/v1/check?status=200", "k-1", &body)
        .problem(422);
    server.post_keyed("/v1/reserve", "k-1", &body).problem(422);
    assert_eq!(server.left("org", &body), 45);
}

#[test]
fn an_error_is_not_kept() {
    let server = server();
    let body = json!({"orgId": "acme", "cost": 5});
    server
        .post_keyed("/v1/check", "k-1", &json!({"orgId": "acme", "cots": 5}))
        .problem(400);
    server.post_keyed("/v1/check", "k-1", &body).expect(200);
    let name = server.reserve(&body);
    let settle = |cost: u64| {
        let body = json!({"reservationId": name, "actualCost": cost});
        server.post_keyed("/v1/settle", "s-1", &body)
    };
    settle(100).problem(409);
    settle(7).expect(200);
    for key in ["", " ", "a b", &"k".repeat(256)] {
        server.post_keyed("/v1/check", key, &body).problem(400);
    }
    assert_eq!(server.left("org", &body), 38);
}

#[test]
fn a_denial_is_kept_until_it_may_be_tried_again() {
    let policy = "{id: org, scope: org, algorithm: fixed_window, anchor: first, limit: 5, window: 2s}";
    let server = Server::start(&file_of(&[policy.to_owned()]), &[]);
    let body = json!({"orgId": "acme", "cost": 4});
    server.allowed(&body);
    let first = server.post_keyed("/v1/check", "k-1", &body);
    if first.status == 429 {
        let again = server.post_keyed("/v1/check", "k-1", &body);
        if again.status == 429 {
            assert_eq!(again.body, first.body);
        }
    }
    let allowed = wait_for("the next window", || {
        let answer = server.post_keyed("/v1/check", "k-1", &body);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(allowed["allowed"], true);
    assert_eq!(server.post_keyed("/v1/check", "k-1", &body).expect(200), allowed);
}

#[test]
fn what_charges_nothing_may_have_a_key() {
    let server = server();
    for body in [
        json!({"orgId": "acme", "cost": 5, "dryRun": true}),
        json!({"orgId": "acme", "cost": 0}),
    ] {
        let key = body.to_string();
        let answers: [Value; 2] = [(); 2].map(|()| server.post_keyed("/v1/check", "k", &body).json());
        let other = server.post_keyed("/v1/check", "l", &body);
        if key.contains("dryRun") {
            assert_eq!(answers[0], answers[1]);
            other.expect(200);
        } else {
            other.problem(422);
        }
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 50);
}
