//! A policy file beside the database: what it names is its own.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Admin, Server, wait_for};
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
    let rows = admin.items("/v1/audit?limit=1000");
    assert!(
        rows.iter().all(|row| row["actor"] == "file:policies.yaml"),
        "{rows:?}"
    );
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 3);
}

#[test]
fn all_that_the_file_says_of_something_is_shown() {
    let file = "\
tiers: [{tier: gold}]
orgs:
  - {orgId: acme, tier: gold, billingAnchor: 2024-01-31}
policies:
  - {id: plain, orgTier: gold, limit: 9, window: 1m, burst: 20, requiredScope: write, match: {region: eu*}, failMode: closed,
     accuracy: 2.5%, resetJitter: 3s, expose: false, mode: soft, unit: tokens, counter: shared}
  - {id: by-ip, scope: ip, algorithm: fixed_window, anchor: first, limit: 5, window: 1h, ipv4Prefix: 24}
  - {id: daily, orgTier: gold, limit: 100, window: day, timezone: Asia/Tokyo}
";
    let server = Server::start(file, &[]);
    let admin = server.platform_admin();
    let plain = json!({
        "id": "plain", "orgTier": "gold", "scope": "org", "endpointPattern": "*", "algorithm": "token_bucket",
        "limit": 9, "window": "1m", "burst": 20, "requiredScope": "write", "match": {"region": "eu*"},
        "failMode": "closed", "accuracy": "2.5%", "resetJitter": "3s", "expose": false, "mode": "soft",
        "unit": "tokens", "counter": "shared", "source": "file",
    });
    assert_eq!(admin.get(&format!("{POLICIES}/plain")).expect(200), plain);
    let org = admin.get("/v1/orgs/acme").expect(200);
    assert_eq!(org["billingAnchor"], "2024-01-31");
    // What is shown could be written by API: the same again under another name.
    let mut again = plain;
    again["id"] = json!("again");
    let again_members = again.as_object_mut().unwrap();
    again_members.remove("source");
    assert_eq!(admin.put(POLICIES, &again).expect(201), again);

    let effective = admin.get("/v1/orgs/acme/ratelimit/policies").expect(200);
    let of = |policy: &str| {
        let items = effective["items"].as_array().unwrap().iter();
        let found = items.clone().find(|item| item["policyId"] == policy);
        found.unwrap_or_else(|| panic!("{policy} is not in {effective}"))
    };
    let plain = of("plain");
    assert_eq!(plain["source"], "file");
    assert_eq!(of("again").get("source"), None);
    assert_eq!(plain["requiredScope"], "write");
    assert_eq!(plain["match"], json!({"region": "eu*"}));
    for (policy, name, value) in [
        ("plain", "failMode", json!("closed")),
        ("plain", "accuracy", json!("2.5%")),
        ("plain", "resetJitter", json!("3s")),
        ("plain", "expose", json!(false)),
        ("plain", "unit", json!("tokens")),
        ("plain", "counter", json!("shared")),
        ("daily", "counter", json!(null)),
        ("plain", "anchor", json!(null)),
        ("plain", "ipv4Prefix", json!(null)),
        ("by-ip", "anchor", json!("first")),
        ("by-ip", "ipv4Prefix", json!(24)),
        ("by-ip", "ipv6Prefix", json!(64)),
        ("daily", "timezone", json!("Asia/Tokyo")),
        ("daily", "failMode", json!("closed")),
    ] {
        let said = &of(policy)["values"][name];
        assert_eq!(
            *said,
            json!({"value": value, "from": "policy"}),
            "{policy} {name}"
        );
    }
    let check =
        json!({"orgId": "acme", "ip": "203.0.113.9", "scopes": ["write"], "descriptors": {"region": "eu-1"}});
    let explained = admin.post("/v1/ratelimit/explain", &check).expect(200);
    let applied = explained["applied"].as_array().unwrap();
    let sources: Vec<_> = applied
        .iter()
        .map(|one| (one["policyId"].as_str().unwrap(), one.get("source")))
        .collect();
    let file = json!("file");
    assert_eq!(
        sources,
        [
            ("by-ip", Some(&file)),
            ("again", None),
            ("daily", Some(&file)),
            ("plain", Some(&file))
        ]
    );
}

#[test]
fn overrides_of_the_file_are_listed_and_can_not_be_ended_by_api() {
    let more = "\
overrides:
  - {orgId: acme, policyId: gold-org, limit: 7, reason: a fair, expiresAt: 2099-01-01T00:00:00Z}
  - {orgId: initech, limit: 2, window: 1h}
  - {orgId: acme, scope: org, keyId: mobile, limit: 1}
";
    let server = Server::start(&format!("{FILE}{more}"), &[]);
    let admin = server.platform_admin();
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    let made = admin
        .post(overrides, &json!({"policyId": "gold-org", "limit": 8}))
        .expect(201);
    let listed = admin.items(overrides);
    let of_file = json!({
        "id": "00000000000000000001", "orgId": "acme", "policyId": "gold-org", "limit": 7, "reason": "a fair",
        "expiresAt": "2099-01-01T00:00:00Z", "source": "file",
    });
    let for_key = json!({
        "id": "00000000000000000003", "orgId": "acme", "scope": "org", "keyId": "mobile", "limit": 1, "source": "file",
    });
    // The older first: what the API has made is newer than the file.
    assert_eq!(listed, [of_file.clone(), for_key, made]);
    let page = admin.get(&format!("{overrides}?limit=2")).expect(200);
    assert_eq!(page["nextCursor"], "00000000000000000003");
    let one = format!("{overrides}/00000000000000000001");
    assert_eq!(admin.get(&one).expect(200), of_file);
    let before = admin.changes();
    let refused = admin.delete(&one).problem(409);
    assert!(refused.contains("policy file"), "{refused}");
    assert_eq!(admin.changes(), before);
    // Those of another org are not found here, and an org that only an override names is known by it.
    admin
        .get(&format!("{overrides}/00000000000000000002"))
        .problem(404);
    admin
        .delete(&format!("{overrides}/00000000000000000002"))
        .problem(404);
    assert_eq!(admin.items("/v1/orgs/initech/ratelimit/overrides").len(), 1);
    admin.get("/v1/orgs/absent/ratelimit/overrides").problem(404);

    let effective = admin.get("/v1/orgs/acme/ratelimit/policies").expect(200);
    let items = effective["items"].as_array().unwrap();
    let sources: Vec<_> = items
        .iter()
        .map(|item| (item["for"].as_str().unwrap(), item.get("source")))
        .collect();
    assert_eq!(sources, [("org", None), ("key mobile", Some(&json!("file")))]);
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

/// Its limits are in force, so that there must be a way to see them. What is written of it needs an entry of its own.
#[test]
fn an_org_that_the_file_only_has_overrides_for_is_there() {
    let file = "policies:\n  - {id: day, limit: 9, window: day}\n\
                overrides:\n  - {orgId: initech, appId: web, policyId: day, limit: 3}\n";
    let server = Server::start(file, &[]);
    let admin = server.platform_admin();
    let org = admin.get("/v1/orgs/initech").expect(200);
    assert_eq!(
        (&org["tier"], &org["source"]),
        (&json!("default"), &json!("file"))
    );
    let effective = admin.get("/v1/orgs/initech/ratelimit/policies").expect(200);
    assert_eq!(effective["items"].as_array().unwrap().len(), 2, "{effective}");
    let web = json!({"orgId": "initech", "appId": "web"});
    server.allowed(&json!({"orgId": "initech", "appId": "web", "cost": 3}));
    server.denied(&web);
    let used = &admin.items("/v1/orgs/initech/quotas");
    assert_eq!(used.len(), 2, "{used:?}");
    let reset = json!({"reason": "a trial", "quotas": true});
    admin
        .post("/v1/orgs/initech/ratelimit/reset", &reset)
        .problem(404);
    admin.set("/v1/orgs/initech", &json!({}));
    admin.post("/v1/orgs/initech/ratelimit/reset", &reset).expect(200);
    server.allowed(&web);
    let raised = json!({"policyId": "day", "limit": 20});
    admin
        .post("/v1/orgs/initech/ratelimit/overrides", &raised)
        .expect(201);
    assert_eq!(server.left("day", &json!({"orgId": "initech"})), 19);
}

#[test]
fn what_the_file_changes_is_in_the_audit_once() {
    let file = |limit: u64, more: &str| {
        format!(
            "tiers: [{{tier: gold}}]\norgs: [{{orgId: acme, tier: gold}}]\npolicies:\n  - {{id: rate, limit: {limit}, window: 1m}}\n\
             {more}overrides: [{{orgId: acme, policyId: rate, limit: 7, reason: launch}}]\n"
        )
    };
    let mut server = Server::start(&file(5, ""), &[]);
    let admin = server.platform_admin();
    let rows = |admin: &Admin| {
        let mut rows = admin.items("/v1/audit?limit=1000");
        rows.retain(|row| row["actor"] == "file:policies.yaml");
        rows
    };
    let first = wait_for("rows of the file", || {
        Some(rows(&admin)).filter(|rows| rows.len() >= 4)
    });
    let mut kinds: Vec<&str> = first.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["org", "override", "policy", "tier"]);
    assert!(first.iter().all(|row| row["before"].is_null()), "{first:?}");

    server.reload(&file(500_000, "  - {id: other, limit: 1, window: 1h}\n"));
    let changed = wait_for("rows of the change", || {
        Some(rows(&admin)).filter(|rows| rows.len() >= 6)
    });
    let of = |id: &str| changed.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!(
        (&of("rate")["before"]["limit"], &of("rate")["after"]["limit"]),
        (&json!(5), &json!(500_000))
    );
    assert_eq!(
        (&of("other")["before"], &of("other")["after"]["limit"]),
        (&Value::Null, &json!(1))
    );
    assert_eq!(changed.len(), 6, "{changed:?}");
    let verified = admin.get("/v1/audit/verify").expect(200);
    assert_eq!(
        (&verified["intact"], &verified["rows"]),
        (&json!(true), &json!(6)),
        "{verified}"
    );

    // Neither a start nor a file that says the same in other words repeats them.
    server.restart("TERM");
    let admin = server.platform_admin();
    server.reload(&format!(
        "# the same\n{}",
        file(500_000, "  - {id: other, limit: 1, window: 1h}\n")
    ));
    admin.set("/v1/tiers/later", &json!({}));
    assert_eq!(rows(&admin).len(), 6);
    // What it drops is told, too, and a tenant sees what is about its org.
    server.reload(&file(500_000, ""));
    let gone = wait_for("the row of what is gone", || {
        rows(&admin)
            .into_iter()
            .find(|row| row["id"] == "other" && row["after"].is_null())
    });
    assert_eq!(gone["before"]["limit"], 1);
    let tenant = admin.with_role("tenant-viewer", Some("acme"));
    let own = tenant.items("/v1/audit");
    assert!(
        own.iter()
            .any(|row| row["kind"] == "override" && row["after"]["limit"] == 7),
        "{own:?}"
    );
}
