//! A policy file that drops what was built on by API: that has no effect from then on, is reported, and is in
//! nobody's way.

use serde_json::{Value, json};

use crate::common::server::applied;
use crate::common::{Admin, Launch, Server, wait_for};
use crate::{POLICIES, hourly};

const OVERRIDES: &str = "/v1/orgs/acme/ratelimit/overrides";

fn file(parts: &str) -> String {
    format!(
        "policies:\n  - {{id: f1, scope: org, algorithm: fixed_window, anchor: first, limit: 10, window: 1h}}\n{parts}"
    )
}

const F2: &str = "  - {id: f2, scope: org, algorithm: fixed_window, anchor: first, limit: 10, window: 2h}\n";

fn started(policies: &str) -> (Server, Admin) {
    let server = Server::start(policies, &[]);
    let admin = server.platform_admin();
    (server, admin)
}

fn ready(server: &Server) -> Value {
    server.ask_admin("GET", "/readyz").send().expect(200)
}

fn left_out(server: &Server, kind: &str) -> u64 {
    server.counted(&format!("tollgate_catalogue_left_out{{kind=\"{kind}\"}}"))
}

#[test]
fn an_override_of_a_dropped_policy_is_in_nobodys_way() {
    let (mut server, admin) = started(&file(F2));
    admin.set("/v1/orgs/acme", &json!({}));
    let stale = admin
        .post(OVERRIDES, &json!({"policyId": "f2", "limit": 3}))
        .expect(201);
    let other = admin
        .post(OVERRIDES, &json!({"policyId": "f1", "limit": 9}))
        .expect(201);
    assert_eq!(stale.get("leftOut"), None);
    server.reload(&file(""));
    let said = server.logs("left out");
    assert!(said.contains("there is no policy `f2`"), "{said}");
    assert_eq!(left_out(&server, "override"), 1);
    let told = ready(&server);
    assert_eq!(told["policyFile"], "inForce");
    assert_eq!(told["leftOutCount"], 1);
    assert_eq!(told["leftOut"][0]["why"], "there is no policy `f2`");
    let listed = admin.items(OVERRIDES);
    assert_eq!(listed[0]["leftOut"], "there is no policy `f2`");
    assert_eq!(listed[1].get("leftOut"), None);
    let one = format!("{OVERRIDES}/{}", stale["id"].as_str().unwrap());
    assert_eq!(admin.get(&one).expect(200)["leftOut"], "there is no policy `f2`");

    // Everything else of the org goes on.
    let acme = json!({"orgId": "acme"});
    admin.set("/v1/orgs/acme", &json!({"timezone": "Europe/Berlin"}));
    admin
        .post(OVERRIDES, &json!({"policyId": "f1", "limit": 1}))
        .expect(201);
    assert_eq!(server.left("f1", &acme), 1);
    admin
        .post("/v1/orgs/acme/ratelimit/reset", &json!({"reason": "x"}))
        .expect(200);
    admin.set("/v1/orgs/acme/users/u", &json!({"tier": "default"}));
    admin.remove(&format!("{OVERRIDES}/{}", other["id"].as_str().unwrap()));
    // But nothing new is built on what is not there, and it is said which one it is.
    let refused = admin
        .post(OVERRIDES, &json!({"policyId": "f2", "limit": 4}))
        .problem(422);
    assert!(refused.contains("`f2`"), "{refused}");
    assert_eq!(left_out(&server, "override"), 1);

    for signal in ["TERM", "KILL"] {
        server.restart(signal);
        assert_eq!(left_out(&server, "override"), 1);
        assert_eq!(server.left("f1", &acme), 1);
    }
    server.reload(&file(F2));
    assert_eq!(left_out(&server, "override"), 0);
    assert_eq!(server.left("f2", &acme), 3);
    server.reload(&file(""));
    server.platform_admin().remove(&one);
    assert_eq!(left_out(&server, "override"), 0);
}

#[test]
fn an_org_of_a_dropped_tier_is_of_the_default_one_and_says_so() {
    let gold = "  - {id: gold, orgTier: Gold, scope: org, limit: 5, window: 1m}\ntiers: [{tier: Gold}]\n";
    let (server, admin) = started(&file(gold));
    admin.set("/v1/orgs/acme", &json!({"tier": "Gold"}));
    admin.set("/v1/orgs/acme/users/u", &json!({"tier": "Gold"}));
    let acme = json!({"orgId": "acme"});
    assert_eq!(applied(&server.allowed(&acme)), ["f1", "gold"]);
    server.reload(&file(""));
    assert_eq!(applied(&server.allowed(&acme)), ["f1"]);
    assert_eq!((left_out(&server, "org"), left_out(&server, "user")), (1, 1));
    let shown = admin.get("/v1/orgs/acme").expect(200);
    assert!(shown["leftOut"].as_str().unwrap().contains("`Gold`"), "{shown}");
    assert!(ready(&server).to_string().contains("`Gold`"));
    admin
        .post(OVERRIDES, &json!({"policyId": "f1", "limit": 1}))
        .expect(201);
    assert_eq!(left_out(&server, "org"), 1);
    admin.set("/v1/tiers/Gold", &json!({}));
    assert_eq!((left_out(&server, "org"), left_out(&server, "user")), (0, 0));
}

/// An org that only a file has.
const FO: &str = "orgs: [{orgId: fo}]\n";

#[test]
fn what_opens_a_dropped_org_opens_nothing() {
    let (mut server, admin) = started(&file(FO));
    admin.set("/v1/orgs/fo/apps/web", &json!({}));
    let (_, secret) = admin.key("fo", "web", "live");
    let tenant = admin.with_role("tenant-admin", Some("fo"));
    admin
        .post(
            "/v1/orgs/fo/ratelimit/overrides",
            &json!({"policyId": "f1", "limit": 3}),
        )
        .expect(201);
    let by_key = json!({"apiKey": secret, "cost": 0});
    let opens = |server: &Server| {
        let tenant = server.with_token(tenant.secret());
        (server.check(&by_key).status, tenant.get("/v1/orgs/fo").status)
    };
    assert_eq!(opens(&server), (200, 200));
    server.reload(&file(""));
    assert_eq!(opens(&server), (401, 401));
    let said = server.logs("there is no org `fo`");
    assert!(said.contains("left out"), "{said}");
    for kind in ["key", "token", "override"] {
        assert_eq!(left_out(&server, kind), 1, "{kind}");
    }
    assert_eq!(server.left("f1", &json!({"orgId": "fo"})), 10);
    // Nobody has to say who they are to see this.
    assert!(!ready(&server).to_string().contains("`fo`"));
    let tokens = admin.items("/v1/tokens");
    assert_eq!(tokens[0]["leftOut"], "there is no org `fo`");
    server.restart("KILL");
    assert_eq!(opens(&server), (401, 401));
    // A file that was taken back finds all of it again.
    server.reload(&file(FO));
    assert_eq!(opens(&server), (200, 200));
    server.reload(&file(""));

    // Another customer of that name.
    let admin = server.platform_admin();
    let shown = admin.put("/v1/orgs/fo?dryRun=true", &json!({})).expect(200);
    assert_eq!(shown["changes"].as_array().unwrap().len(), 5, "{shown}");
    admin.put("/v1/orgs/fo", &json!({})).expect(201);
    assert_eq!(opens(&server), (401, 401));
    assert!(admin.items("/v1/orgs/fo/apps").is_empty());
    assert!(admin.items("/v1/orgs/fo/ratelimit/overrides").is_empty());
    assert_eq!(server.left("f1", &json!({"orgId": "fo"})), 10);
    server.restart("TERM");
    assert_eq!(opens(&server), (401, 401));
    assert_eq!(ready(&server)["leftOutCount"], 0);
}

#[test]
fn an_override_of_a_class_is_never_for_all_routes() {
    let heavy = "endpointClasses: [{pattern: /v1/exports, class: heavy}]\n";
    let (mut server, admin) = started(&file(heavy));
    admin.set("/v1/orgs/acme", &json!({}));
    let cap = json!({"endpointPattern": "class:heavy", "limit": 1, "window": "1h"});
    admin.post(OVERRIDES, &cap).expect(201);
    let export = json!({"orgId": "acme", "endpoint": "GET /v1/exports", "cost": 0});
    let other = json!({"orgId": "acme", "endpoint": "GET /v1/other", "cost": 0});
    assert_eq!(applied(&server.allowed(&export)).len(), 2);
    server.reload(&file(""));
    assert_eq!(applied(&server.allowed(&other)), ["f1"]);
    assert_eq!(applied(&server.allowed(&export)), ["f1"]);
    assert_eq!(left_out(&server, "override"), 1);
    server.restart("KILL");
    assert_eq!(applied(&server.allowed(&other)), ["f1"]);
    assert_eq!(left_out(&server, "override"), 1);
    // Made by API, a class goes only when no override is for it.
    let admin = server.platform_admin();
    admin.set(
        crate::CLASSES,
        &json!([{"pattern": "/v1/exports", "class": "heavy"}]),
    );
    assert_eq!(left_out(&server, "override"), 0);
    assert_eq!(applied(&server.allowed(&export)).len(), 2);
    let refused = admin.put(crate::CLASSES, &json!([])).problem(409);
    assert!(refused.contains("1 overrides"), "{refused}");
}

/// What the file says is found by what the file has, whatever is made beside it.
#[test]
fn an_override_of_the_file_stays_what_it_is() {
    let more = "overrides: [{orgId: acme, scope: org, limit: 4}]\n";
    let (mut server, admin) = started(&file(more));
    admin.set(POLICIES, &hourly("beside", "*", "org", 50));
    let acme = json!({"orgId": "acme"});
    for signal in ["TERM", "KILL"] {
        assert_eq!(server.left("f1", &acme), 4);
        assert_eq!(server.left("beside", &acme), 50);
        server.restart(signal);
    }
}

#[test]
fn the_demonstration_is_named_and_goes_only_with_a_policy() {
    let mut server = Server::launch(&Launch::default());
    let said = server.logs("built-in demonstration set");
    assert!(
        said.contains("enterprise-org-day") && said.contains("--policies"),
        "{said}"
    );
    assert!(
        ready(&server)["warnings"][0]
            .as_str()
            .unwrap()
            .contains("demonstration")
    );
    let admin = server.platform_admin();
    let acme = json!({"orgId": "acme", "endpoint": "POST /v1/exports"});
    let before = applied(&server.allowed(&acme)).len();
    admin.set("/v1/tiers/Pro", &json!({}));
    admin.set("/v1/orgs/new", &json!({"tier": "Pro"}));
    admin.set("/v1/orgs/new/apps/web", &json!({}));
    let (_, secret) = admin.key("new", "web", "live");
    admin.set(crate::CLASSES, &json!([{"pattern": "/v1/slow", "class": "slow"}]));
    let refused = admin
        .post(
            "/v1/orgs/new/ratelimit/overrides",
            &json!({"policyId": "app-rate", "limit": 1}),
        )
        .problem(422);
    assert!(refused.contains("demonstration"), "{refused}");
    for signal in ["TERM", "KILL"] {
        let applied = applied(&server.allowed(&acme)).len();
        assert_eq!(applied, before);
        server.allowed(&json!({"apiKey": secret}));
        server.restart(signal);
    }
    assert!(!server.stderr().contains("no longer in force"));
    let admin = server.platform_admin();
    admin.set(POLICIES, &hourly("own", "*", "org", 3));
    assert_eq!(applied(&server.allowed(&acme)), ["own"]);
    server.logs("demonstration set is no longer in force");
    assert_eq!(ready(&server)["warnings"], json!([]));
    server.allowed(&json!({"apiKey": secret}));
    admin.remove(&format!("{POLICIES}/own"));
    server.restart("KILL");
    wait_for("a start without the demonstration", || {
        applied(&server.allowed(&acme)).is_empty().then_some(())
    });
}
