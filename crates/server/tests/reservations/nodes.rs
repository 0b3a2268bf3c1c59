//! More than one node, and more than one org.

use serde_json::json;

use crate::common::{Server, file_of, hourly};
use crate::postgres::Postgres;
use crate::world::{left, quota, serve};

#[test]
fn another_node_does_not_know_it() {
    let postgres = Postgres::start();
    let url = postgres.create();
    let [a, b] = [(); 2].map(|()| serve(Some(&url), &[quota("day", 10_000, "")]));
    let name = a.reserve(&json!({"orgId": "acme", "cost": 500}));
    let detail = b.settle(&name, 0).problem(404);
    assert!(detail.contains("where it was made"), "{detail}");
    a.settle(&name, 100).expect(200);
    assert_eq!(left(&a, "acme", "day"), 9_900);
}

#[test]
fn an_org_holds_only_so_many() {
    let server = Server::start(&file_of(&[hourly("org", "org", 1_000_000, "")]), &[]);
    let body = json!({"orgId": "acme"});
    for _ in 0..10_000 {
        assert_eq!(server.post("/v1/reserve", &body).status, 200);
    }
    let full = server.post("/v1/reserve", &body);
    assert_eq!(full.expect(503)["error"], "limiter_unavailable");
    assert_eq!(server.left("org", &body), 990_000);
    server.reserve(&json!({"orgId": "other"}));
}
