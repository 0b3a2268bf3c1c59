//! More than one node, and more than one org.

use serde_json::json;

use crate::common::{Server, file_of, hourly};
use crate::postgres::Postgres;
use crate::servers;
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
fn in_a_fleet_nothing_goes_back() {
    let redis = servers::Server::start();
    let server = Server::start(
        &file_of(&[hourly("org", "org", 100, "accuracy: exact")]),
        &["--redis", &redis.url()],
    );
    let name = server.reserve(&json!({"orgId": "acme", "cost": 40}));
    let settled = server.settle(&name, 10).expect(200);
    assert_eq!(
        (&settled["returnedCost"], &settled["actualCost"]),
        (&json!(0), &json!(10))
    );
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 60);
    let name = server.reserve(&json!({"orgId": "acme", "cost": 20}));
    server.settle(&name, 70).problem(409);
    assert_eq!(server.settle(&name, 30).expect(200)["extraCost"], 10);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 30);
}

#[test]
fn in_a_fleet_quotas_of_the_ledger_go_back() {
    let (redis, postgres) = (servers::Server::start(), Postgres::start());
    let policies = file_of(&[
        hourly("rate", "org", 1_000, "accuracy: exact"),
        quota("day", 10_000, ""),
    ]);
    let url = postgres.create();
    let server = Server::start(&policies, &["--redis", &redis.url(), "--database", &url]);
    let name = server.reserve(&json!({"orgId": "acme", "cost": 400}));
    assert_eq!(server.settle(&name, 100).expect(200)["returnedCost"], 300);
    assert_eq!(left(&server, "acme", "day"), 9_900);
    assert_eq!(server.left("rate", &json!({"orgId": "acme"})), 600);
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
