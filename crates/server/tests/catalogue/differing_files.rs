//! Nodes whose policy files differ, as in every staggered rollout: each follows all that fits its own, says what does
//! not, and restarts.

use serde_json::{Value, json};

use crate::common::{Launch, Server};
use crate::fleet::{TOKEN, admin, delete, until, write};
use crate::postgres::Postgres;

/// The file of the node that is behind.
const OLD: &str = "\
policies:
  - {id: f1, scope: org, limit: 10, window: 1m, counter: both}
";
/// The file of the node that is ahead.
const NEW: &str = "\
tiers: [{tier: Gold}]
endpointClasses:
  - {pattern: /v1/exports, class: heavy}
policies:
  - {id: f1, scope: org, limit: 10, window: 1m}
  - {id: f2, scope: org, algorithm: fixed_window, limit: 10, window: 1h}
";

fn node(database: &str, policies: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(policies),
        flags: &["--database", database, "--admin-token", TOKEN, "--threads", "1"],
        ..Launch::default()
    })
}

fn ready(node: &Server) -> Value {
    node.ask_admin("GET", "/readyz").send().expect(200)
}

fn token(node: &Server) -> (String, String) {
    let made = admin(node, "POST", "/v1/tokens")
        .body(json!({"role": "platform-admin"}).to_string())
        .send()
        .expect(201);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

fn key(node: &Server, org: &str) -> (String, String) {
    write(node, "PUT", &format!("/v1/orgs/{org}"), &json!({}));
    write(node, "PUT", &format!("/v1/orgs/{org}/apps/web"), &json!({}));
    let target = format!("/v1/orgs/{org}/apps/web/keys");
    let made = admin(node, "POST", &target).body("{}").send().expect(201);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("keyId"), text("secret"))
}

fn with_token(node: &Server, secret: &str) -> u16 {
    let ask = node.ask_admin("GET", "/v1/orgs");
    let answer = ask.header("Authorization", &format!("Bearer {secret}")).send();
    answer.status
}

fn with_key(node: &Server, secret: &str) -> u16 {
    node.check(&json!({"apiKey": secret, "cost": 0})).status
}

fn limit_of(node: &Server, org: &str, policy: &str) -> Option<u64> {
    let decision = node.check(&json!({"orgId": org, "cost": 0})).expect(200);
    let limits = decision["limits"].as_array().unwrap();
    let found = limits.iter().find(|limit| limit["policyId"] == policy);
    found.and_then(|limit| limit["limit"].as_u64())
}

/// What is written on the node that is ahead, and of which kind that does not fit the other.
type Row = (&'static str, &'static str, Value, &'static str);

fn rows() -> [Row; 5] {
    const OVERRIDES: &str = "/v1/orgs/acme/ratelimit/overrides";
    const POLICIES: &str = "/v1/ratelimit/policies";
    [
        (
            "POST",
            OVERRIDES,
            json!({"policyId": "f2", "limit": 3}),
            "override",
        ),
        ("POST", OVERRIDES, json!({"window": "1h", "limit": 3}), "override"),
        (
            "PUT",
            POLICIES,
            json!({"id": "exports", "endpointPattern": "class:heavy", "limit": 5, "window": "1m"}),
            "policy",
        ),
        (
            "PUT",
            POLICIES,
            json!({"id": "shared", "scope": "org", "limit": 20, "window": "1m", "counter": "both"}),
            "policy",
        ),
        ("PUT", "/v1/orgs/acme", json!({"tier": "Gold"}), "org"),
    ]
}

#[test]
fn a_node_that_is_behind_follows_all_that_fits() {
    let postgres = Postgres::start();
    for (method, target, body, kind) in rows() {
        follows(&postgres.create(), (method, target, &body), kind);
    }
}

fn follows(database: &str, (method, target, body): (&str, &str, &Value), kind: &str) {
    println!("{method} {target} {body}");
    let (a, mut b) = (node(database, NEW), node(database, OLD));
    write(&a, "PUT", "/v1/orgs/acme", &json!({}));
    let ((token_id, token), (key_id, key)) = (token(&a), key(&a, "globex"));
    until("the token and the key", || {
        with_token(&b, &token) == 200 && with_key(&b, &key) == 200
    });
    assert_eq!(ready(&b)["leftOutCount"], 0);

    write(&a, method, target, body);
    delete(&a, &format!("/v1/tokens/{token_id}"));
    delete(&a, &format!("/v1/orgs/globex/apps/web/keys/{key_id}"));
    let overrides = "/v1/orgs/globex/ratelimit/overrides";
    write(&a, "POST", overrides, &json!({"policyId": "f1", "limit": 2}));
    until("all that fits", || limit_of(&b, "globex", "f1") == Some(2));
    let holds = |b: &Server| {
        assert_eq!(with_token(b, &token), 401);
        assert_eq!(with_key(b, &key), 401);
        assert_eq!(limit_of(b, "globex", "f1"), Some(2));
        assert_eq!(limit_of(b, "acme", "f1"), Some(10));
        let ready = ready(b);
        assert_eq!(ready["leftOutCount"], 1, "{ready}");
        assert_eq!(ready["leftOut"][0]["kind"], kind, "{ready}");
        assert!(ready["leftOut"][0]["why"].is_string(), "{ready}");
        assert_eq!(ready["catalogue"], "postgres");
        let gauge = format!("tollgate_catalogue_left_out{{kind=\"{kind}\"}}");
        assert_eq!(b.counted(&gauge), 1);
    };
    holds(&b);
    b.logs("left out of the catalogue in force on this node");
    // Writing goes on there, also beside what is left out.
    let (_, another) = self::token(&b);
    write(
        &b,
        "POST",
        "/v1/orgs/acme/ratelimit/overrides",
        &json!({"policyId": "f1", "limit": 10}),
    );
    until("what was written there", || with_token(&a, &another) == 200);
    for signal in ["TERM", "KILL"] {
        b.restart(signal);
        holds(&b);
    }

    b.write_policies(NEW);
    until("the new file", || ready(&b)["leftOutCount"] == 0);
    assert_eq!(with_token(&b, &token), 401);
    if kind == "override" {
        assert_eq!(limit_of(&b, "acme", "f2"), Some(3));
    }
    assert_eq!(ready(&a)["leftOutCount"], 0);
}

#[test]
fn a_node_that_is_behind_starts_without_the_database() {
    let mut postgres = Postgres::start();
    let database = postgres.create();
    let (a, mut b) = (node(&database, NEW), node(&database, OLD));
    write(&a, "PUT", "/v1/orgs/acme", &json!({}));
    for (method, target, body, _) in rows().into_iter().skip(2) {
        write(&a, method, target, &body);
    }
    let last = write(&a, "PUT", "/v1/orgs/last", &json!({}));
    let copy = b.data("catalogue.snapshot");
    until("the copy on disk", || {
        let text = std::fs::read_to_string(&copy).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    postgres.kill();
    b.restart("KILL");
    let ready = ready(&b);
    assert_eq!(ready["catalogueFrom"], "disk");
    assert_eq!(ready["leftOutCount"], 3, "{ready}");
    assert_eq!(limit_of(&b, "acme", "f1"), Some(10));
}

/// A kind of entry that only a newer version knows.
#[test]
fn what_a_newer_version_writes_is_skipped() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let mut node = node(&database, OLD);
    write(&node, "PUT", "/v1/orgs/acme", &json!({}));
    let (id, secret) = token(&node);
    let head: i64 = postgres
        .sql(&database, "SELECT revision FROM tollgate_head")
        .parse()
        .unwrap();
    let add = |revision: i64| {
        format!(
            "BEGIN; INSERT INTO tollgate_journal \
             VALUES ({revision}, 0, 'x', 'x', 'x', '', 'webhook', 'acme', 'w{revision}', '', '{{}}', 'hash'); \
             INSERT INTO tollgate_entries VALUES ('webhook', 'acme', 'w{revision}', '{{}}', {revision}); \
             UPDATE tollgate_head SET revision = {revision}, hash = 'hash'; COMMIT"
        )
    };
    postgres.sql(&database, &add(head + 1));
    until("the row", || ready(&node)["catalogueRevision"] == head + 1);
    node.logs("webhook");
    assert_eq!(ready(&node)["catalogue"], "postgres");
    delete(&node, &format!("/v1/tokens/{id}"));
    assert_eq!(with_token(&node, &secret), 401);
    let audit = admin(&node, "GET", "/v1/orgs/acme/audit").send().expect(200);
    let kinds: Vec<&Value> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["kind"])
        .collect();
    assert!(kinds.contains(&&json!("unknown")), "{audit}");
    let lines = admin(&node, "GET", "/v1/audit?format=jsonl").send();
    // The first says what the file says.
    assert_eq!(lines.text().lines().count(), 5);
    postgres.sql(&database, &add(head + 3));
    until("the next row", || ready(&node)["catalogueRevision"] == head + 3);
    for signal in ["TERM", "KILL"] {
        node.restart(signal);
        write(&node, "PUT", "/v1/orgs/acme", &json!({}));
    }
    // It is said once for each process, not with each row.
    assert_eq!(
        node.stderr().matches("does not know").count(),
        3,
        "{}",
        node.stderr()
    );
}
