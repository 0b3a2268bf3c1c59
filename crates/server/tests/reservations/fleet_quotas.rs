//! Durable quotas of a fleet: what one node reserves and another settles goes back to the ledger, once.

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly, wait_for};
use crate::postgres::Postgres;
use crate::servers;
use crate::world::{left, quota, serve, spend};

const LIMIT: u64 = 1_000;

struct Fleet {
    _redis: servers::Server,
    _postgres: Postgres,
    nodes: [Server; 2],
}

fn fleet() -> Fleet {
    let (redis, postgres) = (servers::Server::start(), Postgres::start());
    let url = postgres.create();
    let policies = file_of(&[
        hourly("rate", "org", 100_000, "accuracy: exact"),
        quota("day", LIMIT, ""),
    ]);
    let flags = ["--threads", "1", "--redis", &redis.url(), "--database", &url];
    let nodes = [(); 2].map(|()| Server::start(&policies, &flags));
    nodes[0].platform_admin().set("/v1/orgs/acme", &json!({}));
    Fleet {
        _redis: redis,
        _postgres: postgres,
        nodes,
    }
}

/// What a node shows of the quota.
fn shown(node: &Server) -> [u64; 3] {
    let quotas = node.platform_admin().get("/v1/orgs/acme/quotas").expect(200);
    let item = &quotas["items"][0];
    ["used", "reserved", "remaining"].map(|name| item[name].as_u64().unwrap())
}

fn comes_to(node: &Server, counts: [u64; 3]) {
    wait_for("the quota", || (shown(node) == counts).then_some(()));
}

#[test]
fn in_a_fleet_quotas_of_the_ledger_go_back() {
    let fleet = fleet();
    let [a, b] = &fleet.nodes;
    let acme = json!({"orgId": "acme"});
    for (maker, settler) in [(a, a), (a, b), (b, a)] {
        let before = shown(a)[0];
        let name = maker.reserve(&json!({"orgId": "acme", "cost": 400}));
        for node in [a, b] {
            comes_to(node, [before, 400, LIMIT - before - 400]);
        }
        assert_eq!(settler.settle(&name, 100).expect(200)["returnedCost"], 300);
        for node in [a, b] {
            node.settle(&name, 0).problem(410);
            comes_to(node, [before + 100, 0, LIMIT - before - 100]);
        }
    }
    wait_for("the rate", || (b.left("rate", &acme) == 99_700).then_some(()));
    // The rest can be spent to the last one, and not one more.
    let mut spent = 0;
    wait_for("the end", || {
        spent += spend(a, "acme", 50) + spend(b, "acme", 50);
        (spent >= 700).then_some(())
    });
    assert_eq!(spent, 700);
    for node in [a, b] {
        assert_eq!(spend(node, "acme", 5), 0);
    }
}

#[test]
fn a_correction_leaves_what_is_reserved_in_a_fleet() {
    let fleet = fleet();
    let [a, b] = &fleet.nodes;
    let name = a.reserve(&json!({"orgId": "acme", "cost": 600}));
    spend(a, "acme", 50);
    comes_to(b, [50, 600, 350]);
    correct(b, &json!({"used": 20, "reason": "a mistake"}));
    comes_to(b, [20, 600, 380]);
    b.settle(&name, 0).expect(200);
    comes_to(a, [20, 0, 980]);
}

/// Corrects the only quota.
fn correct(server: &Server, correction: &Value) {
    let admin = server.platform_admin();
    let quotas = admin.get("/v1/orgs/acme/quotas").expect(200);
    let id = quotas["items"][0]["quotaId"].as_str().unwrap();
    let corrections = format!("/v1/orgs/acme/quotas/{id}/corrections");
    admin.post(&corrections, correction).expect(200);
}

#[test]
fn what_is_corrected_away_does_not_go_back_again_with_sqlite() {
    correct_and_settle(None);
}

#[test]
fn what_is_corrected_away_does_not_go_back_again_with_postgres() {
    let postgres = Postgres::start();
    correct_and_settle(Some(&postgres.create()));
}

fn correct_and_settle(database: Option<&str>) {
    let server = serve(database, &[quota("day", LIMIT, "")]);
    server.platform_admin().set("/v1/orgs/acme", &json!({}));
    let name = server.reserve(&json!({"orgId": "acme", "cost": 600}));
    assert_eq!(spend(&server, "acme", 100), 100);
    assert_eq!(shown(&server), [100, 600, 300]);
    correct(&server, &json!({"grant": 40, "reason": "a gift"}));
    assert_eq!(shown(&server), [60, 600, 340]);
    correct(&server, &json!({"used": 0, "reason": "another gift"}));
    assert_eq!(shown(&server), [0, 600, 400]);
    server.settle(&name, 100).expect(200);
    assert_eq!(shown(&server), [100, 0, 900]);
    assert_eq!(left(&server, "acme", "day"), 900);
    assert_eq!(spend(&server, "acme", 901), 900);
}
