//! Durable quotas and statements: what was given back was not used.

use serde_json::{Value, json};

use crate::common::wait_for;
use crate::postgres::Postgres;
use crate::world::{left, quota, serve, spend};

fn only(items: &Value) -> &Value {
    let items = items["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    &items[0]
}

#[test]
fn quotas_show_what_is_reserved() {
    let server = serve(None, &[quota("day", 1_000, "")]);
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    let shown = || {
        let answer = admin.get("/v1/orgs/acme/quotas").expect(200);
        let item = only(&answer).clone();
        ["used", "reserved", "remaining"].map(|name| item[name].as_u64().unwrap())
    };
    assert_eq!(shown(), [0, 0, 1_000]);
    spend(&server, "acme", 7);
    let name = server.reserve(&json!({"orgId": "acme", "cost": 200}));
    let other = server.reserve(&json!({"orgId": "acme", "cost": 50, "ttlMs": 250}));
    assert_eq!(shown()[0], 7);
    server.settle(&name, 120).expect(200);
    // The other one expires by itself, and was used then.
    wait_for("its end", || (shown() == [7 + 120 + 50, 0, 823]).then_some(()));
    server.settle(&other, 0).problem(410);
}

#[test]
fn the_ledger_hears_what_was_given_back_with_sqlite() {
    give_back_and_look(None);
}

#[test]
fn the_ledger_hears_what_was_given_back_with_postgres() {
    let postgres = Postgres::start();
    give_back_and_look(Some(&postgres.create()));
}

fn give_back_and_look(database: Option<&str>) {
    let mut server = serve(database, &[quota("day", 1_000, "")]);
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    let used = |server: &crate::common::Server| {
        let quotas = server.platform_admin().get("/v1/orgs/acme/quotas").expect(200);
        only(&quotas)["used"].as_u64().unwrap()
    };
    let name = server.reserve(&json!({"orgId": "acme", "cost": 900}));
    // The ledger is told before something goes back.
    assert_eq!(used(&server), 0, "all of it is reserved");
    server.settle(&name, 100).expect(200);
    assert_eq!(used(&server), 100);
    // What came back can be reserved again, to the last one.
    let name = server.reserve(&json!({"orgId": "acme", "cost": 900}));
    server.denied(&json!({"orgId": "acme"}));
    server.settle(&name, 0).expect(200);
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "day"), 900);
    assert_eq!(used(&server), 100);
    assert_eq!(spend(&server, "acme", 901), 900);
}

#[test]
fn a_statement_has_what_was_used() {
    let mut server = serve(None, &[quota("day", 1_000, "")]);
    server.allowed(&json!({"orgId": "acme", "cost": 3}));
    for (reserved, actual) in [(100, 40), (10, 25), (5, 5)] {
        let name = server.reserve(&json!({"orgId": "acme", "appId": "web", "cost": reserved}));
        server.settle(&name, actual).expect(200);
    }
    let keyed = json!({"orgId": "acme", "cost": 8});
    server.post_keyed("/v1/check", "k-1", &keyed).expect(200);
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"});
    server.post("/v1/refund", &refund).expect(200);
    server.reserve(&json!({"orgId": "acme", "cost": 60}));
    server.restart("TERM");
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    let statement = admin.get("/v1/orgs/acme/quotas/statement").expect(200);
    assert_eq!(
        (&statement["cost"], &statement["allowed"]),
        (&json!(133), &json!(6))
    );
    let web = &statement["items"][1];
    assert_eq!((&web["appId"], &web["cost"]), (&json!("web"), &json!(70)));
}
