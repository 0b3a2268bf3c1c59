//! Costs have a bound, and what many of them add up to stops at the largest number. Nobody else notices.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::common::{Launch, Server, wait_for};
use crate::postgres::Postgres;

const MAX_COST: u64 = 999_999_999_999_999;
const POLICIES: &str = "
tiers: [{tier: Gold}, {tier: Soft}]
orgs: [{orgId: good, tier: Gold}, {orgId: evil, tier: Soft}]
policies:
  - {id: good-day, orgTier: Gold, scope: org, algorithm: quota, window: day, limit: 1000}
  - {id: evil-day, orgTier: Soft, scope: org, algorithm: quota, window: day, limit: 1000, mode: soft}
  - {id: tokens-day, orgTier: Soft, scope: org, algorithm: quota, window: day, limit: 1000, mode: soft, unit: tokens}
";

fn server(database: Option<&str>) -> Server {
    let flags: Vec<&str> = database.iter().flat_map(|url| ["--database", url]).collect();
    Server::launch(&Launch {
        policies: Some(POLICIES),
        flags: &flags,
        ..Launch::default()
    })
}

/// A question of Envoy's that is refused as if it were over the limit, with a body that says why.
fn refuses(server: &Server, question: &Value) {
    let answer = server.ask("POST", "/json").body(question.to_string()).send();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let answer = answer.expect(429);
    assert_eq!(answer["overallCode"], "OVER_LIMIT");
    assert_eq!(answer["statuses"], json!([{"code": "OVER_LIMIT"}]));
    let body = STANDARD.decode(answer["rawBody"].as_str().unwrap()).unwrap();
    let problem: Value = serde_json::from_slice(&body).unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("descriptors[0]") && detail.contains("999999999999999"),
        "{detail}"
    );
}

#[test]
fn a_cost_beyond_the_bound_is_refused_at_every_door() {
    let server = server(None);
    let evil = |member: &str, value: Value| {
        let mut body = json!({"orgId": "evil"});
        body[member] = value;
        body
    };
    for cost in [MAX_COST + 1, u64::MAX] {
        let detail = server.check(&evil("cost", json!(cost))).problem(400);
        assert!(
            detail.contains("`cost` must be at most 999999999999999"),
            "{detail}"
        );
        let detail = server.check(&evil("costs", json!({"tokens": cost}))).problem(400);
        assert!(
            detail.contains("`costs` must be at most 999999999999999"),
            "{detail}"
        );
        let batch = json!({"requests": [evil("cost", json!(1)), evil("cost", json!(cost))]});
        let answer = server
            .ask("POST", "/v1/check/batch")
            .body(batch.to_string())
            .send();
        let detail = answer.problem(400);
        assert!(
            detail.contains("requests[1]") && detail.contains("999999999999999"),
            "{detail}"
        );
        let answer = server
            .ask("POST", "/v1/reserve")
            .body(evil("cost", json!(cost)).to_string());
        assert!(answer.send().problem(400).contains("999999999999999"));
        let authorize = server
            .ask("GET", "/v1/authorize")
            .header("X-Tollgate-Org", "evil");
        let detail = authorize
            .header("X-Tollgate-Cost", &cost.to_string())
            .send()
            .problem(400);
        assert!(detail.contains("999999999999999"), "{detail}");
        for descriptor in [
            json!({"entries": [{"key": "org", "value": "evil"}, {"key": "cost", "value": cost.to_string()}]}),
            json!({"entries": [{"key": "org", "value": "evil"}], "hitsAddend": cost.to_string()}),
            json!({"entries": [{"key": "org", "value": "evil"}, {"key": "cost", "value": "1000000000"}],
                   "hitsAddend": "1000000000"}),
        ] {
            let question = json!({"domain": "edge", "descriptors": [descriptor]});
            refuses(&server, &question);
        }
    }
    // Digits that no word holds are no other number.
    let cost = json!({"key": "cost", "value": "99999999999999999999999"});
    let huge = json!({"entries": [{"key": "org", "value": "evil"}, cost]});
    refuses(&server, &json!({"domain": "edge", "descriptors": [huge]}));
    // A reservation stays as it was.
    let reserve = server
        .ask("POST", "/v1/reserve")
        .body(evil("cost", json!(5)).to_string())
        .send();
    let id = reserve.expect(200)["reservationId"].as_str().unwrap().to_owned();
    let settle = |cost: u64| {
        let body = json!({"reservationId": id, "actualCost": cost});
        server.ask("POST", "/v1/settle").body(body.to_string()).send()
    };
    assert!(
        settle(u64::MAX)
            .problem(400)
            .contains("`actualCost` must be at most 999999999999999")
    );
    settle(3).expect(200);
    // The bound itself is a cost, and nothing of all that was refused is charged.
    server.allowed(&evil("cost", json!(MAX_COST)));
    let admin = server.platform_admin();
    wait_for("usage to be told", || {
        let statement = admin.get("/v1/orgs/evil/statement").expect(200);
        (statement["cost"] == MAX_COST + 3 && statement["allowed"] == 2).then_some(())
    });
}

#[test]
fn many_maximal_costs_hurt_nobody_with_sqlite() {
    spend_it_all(None);
}

#[test]
fn many_maximal_costs_hurt_nobody_with_postgres() {
    let postgres = Postgres::start();
    spend_it_all(Some(&postgres.create()));
}

/// One org's costs add up to more than a column of the database holds, while another's quota is used.
fn spend_it_all(database: Option<&str>) {
    let mut server = server(database);
    let most = json!({"orgId": "evil", "cost": MAX_COST, "costs": {"tokens": MAX_COST}});
    let batch = json!({"requests": vec![most; 1_000]}).to_string();
    let mut good = 0;
    for _ in 0..12 {
        let answer = server.ask("POST", "/v1/check/batch").body(batch.clone()).send();
        let decisions = answer.expect(200)["decisions"].as_array().unwrap().clone();
        assert!(decisions.iter().all(|decision| decision["allowed"] == true));
        for _ in 0..10 {
            server.allowed(&json!({"orgId": "good"}));
            good += 1;
        }
        // So that the next ones come in another exchange.
        let admin = server.platform_admin();
        wait_for("usage to be told", || {
            let statement = admin.get("/v1/orgs/good/statement").expect(200);
            (statement["allowed"] == good).then_some(())
        });
    }
    let look = |server: &Server| {
        let admin = server.platform_admin();
        let evil = admin.get("/v1/orgs/evil/statement").expect(200);
        assert_eq!(
            (&evil["allowed"], &evil["cost"]),
            (&json!(12_000), &json!(i64::MAX))
        );
        let items = admin.items("/v1/orgs/good/quotas");
        assert_eq!(
            (&items[0]["used"], &items[0]["remaining"]),
            (&json!(good), &json!(1_000 - good))
        );
        let items = admin.items("/v1/orgs/evil/quotas");
        assert_eq!(items.len(), 2);
        for item in items {
            // It stops far beyond any limit.
            assert_eq!(item["used"], (1_u64 << 56) - 1, "{item}");
        }
    };
    look(&server);
    assert_eq!(server.counted("tollgate_ledger_failures_total"), 0);
    server.restart("TERM");
    assert!(!server.stderr().contains("stays debited"), "{}", server.stderr());
    look(&server);
    server.allowed(&json!({"orgId": "good"}));
}
