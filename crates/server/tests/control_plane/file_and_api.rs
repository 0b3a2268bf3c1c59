//! A policy file beside the database: what it names is its own.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Admin, Server};
use crate::{CLASSES, POLICIES, hourly};

const FILE: &str = "\
tiers:
  - tier: gold
orgs:
  - {orgId: acme, tier: gold, timezone: Europe/Berlin}
endpointClasses:
  - {pattern: /v1/exports, class: heavy}
policies:
  - {id: gold-org, orgTier: gold, scope: org, algorithm: fixed_window, anchor: first, limit: 3, window: 1h}
";

fn started() -> (Server, Admin) {
    let server = Server::start(FILE, &[]);
    let admin = server.platform_admin();
    (server, admin)
}

#[test]
fn what_the_file_names_is_marked_and_can_not_be_changed_by_api() {
    let (server, admin) = started();
    let policy = format!("{POLICIES}/gold-org");
    for (list, one, id) in [
        ("/v1/tiers", "/v1/tiers/gold", "tier"),
        ("/v1/orgs", "/v1/orgs/acme", "orgId"),
        (POLICIES, &*policy, "id"),
    ] {
        let shown = admin.get(one).expect(200);
        assert_eq!(shown["source"], "file", "{one}");
        assert!(one.ends_with(shown[id].as_str().unwrap()), "{shown}");
        assert_eq!(admin.items(list), [shown]);
        // There is no revision of the database to compare it with.
        assert_eq!(admin.get(one).header("etag"), None);
    }
    assert_eq!(admin.get(&policy).expect(200)["limit"], 3);
    assert_eq!(
        admin.get("/v1/orgs/acme").expect(200)["timezone"],
        "Europe/Berlin"
    );
    assert_eq!(admin.get(CLASSES).expect(200)[0]["source"], "file");
    let refused = |answer: String| assert!(answer.contains("policy file"), "{answer}");
    for query in ["", "?dryRun=true"] {
        refused(
            admin
                .put(&format!("/v1/tiers/gold{query}"), &json!({}))
                .problem(409),
        );
        refused(
            admin
                .put(&format!("/v1/orgs/acme{query}"), &json!({}))
                .problem(409),
        );
        refused(admin.delete(&format!("/v1/orgs/acme{query}")).problem(409));
        let policies = format!("{POLICIES}{query}");
        refused(
            admin
                .put(&policies, &hourly("gold-org", "gold", "org", 9))
                .problem(409),
        );
        refused(admin.delete(&format!("{policy}{query}")).problem(409));
        refused(admin.put(&format!("{CLASSES}{query}"), &json!([])).problem(409));
        admin.delete(&format!("/v1/tiers/gold{query}")).problem(409);
    }
    assert_eq!(admin.changes(), 0);
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 3);
}

#[test]
fn other_things_stand_beside_the_file_and_survive_its_reload() {
    let (server, admin) = started();
    admin.set("/v1/tiers/silver", &json!({}));
    admin.set(POLICIES, &hourly("silver-org", "silver", "org", 7));
    admin.set("/v1/orgs/globex", &json!({"tier": "silver"}));
    admin.set("/v1/orgs/initech", &json!({"tier": "gold"}));
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 2));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    admin
        .post(overrides, &json!({"policyId": "gold-org", "limit": 5}))
        .expect(201);
    let names: Vec<Value> = admin
        .items(POLICIES)
        .iter()
        .map(|item| item["source"].clone())
        .collect();
    assert_eq!(names, [Value::Null, json!("file"), Value::Null]);
    // A page of both in one order.
    let page = admin.get("/v1/orgs?limit=2").expect(200);
    assert_eq!(page["nextCursor"], "globex");
    assert_eq!(admin.items("/v1/orgs?cursor=globex").len(), 1);
    let holds = |gold: u64| {
        assert_eq!(server.left("silver-org", &json!({"orgId": "globex"})), 7);
        assert_eq!(server.left("gold-org", &json!({"orgId": "initech"})), gold);
        assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 5);
        let decision = server.allowed(&json!({"apiKey": secret, "cost": 0}));
        assert_eq!(limit(&decision, "gold-key")["limit"], 2);
    };
    holds(3);
    server.reload(&FILE.replace("limit: 3", "limit: 4"));
    holds(4);
    assert_eq!(admin.get(&format!("{POLICIES}/gold-org")).expect(200)["limit"], 4);
    admin.set(POLICIES, &hourly("silver-org", "silver", "org", 8));
    assert_eq!(server.left("silver-org", &json!({"orgId": "globex"})), 8);
}

#[test]
fn a_file_that_comes_to_name_something_hides_it_until_it_no_longer_does() {
    let (server, admin) = started();
    admin.set(POLICIES, &hourly("later", "gold", "org", 50));
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    let later = format!("{POLICIES}/later");
    let more = "  - {id: later, orgTier: gold, scope: org, algorithm: fixed_window, anchor: first, limit: 60, window: 1h}\n";
    server.reload(&format!("{FILE}{more}"));
    let shown = admin.get(&later).expect(200);
    assert_eq!((&shown["limit"], &shown["source"]), (&json!(60), &json!("file")));
    assert_eq!(server.left("later", &json!({"orgId": "globex"})), 60);
    admin
        .put(POLICIES, &hourly("later", "gold", "org", 70))
        .problem(409);
    admin.delete(&later).problem(409);
    assert_eq!(admin.items(POLICIES).len(), 2);
    server.reload(FILE);
    assert_eq!(admin.get(&later).expect(200), hourly("later", "gold", "org", 50));
    assert_eq!(server.left("later", &json!({"orgId": "globex"})), 50);
    admin.remove(&later);
}

#[test]
fn classes_come_from_the_api_where_the_file_has_none() {
    let server = Server::start("policies: []\n", &[]);
    let admin = server.platform_admin();
    admin.set(CLASSES, &json!([{"pattern": "/v1/slow", "class": "slow"}]));
    let mut slow = hourly("slow", "*", "org", 1);
    slow["endpointPattern"] = json!("class:slow");
    admin.set(POLICIES, &slow);
    let check = json!({"orgId": "acme", "endpoint": "GET /v1/slow", "cost": 0});
    assert_eq!(applied(&server.allowed(&check)), ["slow"]);
    // A file whose classes would leave a policy without its own is not taken.
    server.write_policies("endpointClasses:\n  - {pattern: /v1/a, class: other}\npolicies: []\n");
    server.logs("`slow`");
    assert_eq!(applied(&server.allowed(&check)), ["slow"]);
    assert_eq!(admin.get(CLASSES).expect(200)[0]["class"], "slow");
}

#[test]
fn with_a_file_there_is_no_demonstration() {
    let server = Server::start("policies: []\n", &[]);
    let admin = server.platform_admin();
    assert!(applied(&server.allowed(&json!({"orgId": "acme"}))).is_empty());
    admin
        .put("/v1/orgs/new", &json!({"tier": "Enterprise"}))
        .problem(422);
    assert!(admin.items("/v1/orgs").is_empty());
}
