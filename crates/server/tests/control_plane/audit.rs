//! `/v1/audit`: who changed what, before and after, and that nobody changes it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Admin, Launch, Server, wait_for};
use crate::{POLICIES, golden, hourly};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_change_is_told_newest_first() {
    let (_server, admin) = golden();
    let replaced = admin
        .ask("PUT", "/v1/orgs/acme")
        .header("X-Request-Id", "ticket 4711")
        .body(json!({"tier": "gold", "timezone": "Asia/Tokyo"}).to_string())
        .send();
    replaced.expect(200);
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    tenant.set("/v1/orgs/acme/apps/web", &json!({}));
    let change = json!({"policyId": "gold-org", "limit": 5, "reason": "a fair"});
    let change = admin
        .post("/v1/orgs/acme/ratelimit/overrides", &change)
        .expect(201);
    tenant.remove("/v1/orgs/acme/apps/web");

    let rows = admin.items("/v1/audit");
    let revisions: Vec<u64> = rows.iter().map(|row| row["revision"].as_u64().unwrap()).collect();
    assert_eq!(revisions, [8, 7, 6, 5, 4, 3, 2, 1]);
    let told = |revision: usize| &rows[8 - revision];
    assert_eq!(told(1)["kind"], "tier");
    assert_eq!(told(1)["before"], Value::Null);
    assert_eq!(told(1)["after"], json!({"tier": "gold"}));
    assert_eq!(told(2)["after"], hourly("gold-org", "gold", "org", 3));
    let org = told(4);
    assert_eq!(org["actor"], "admin-token");
    assert_eq!(org["route"], "PUT /v1/orgs/acme");
    assert_eq!(org["requestId"], "ticket 4711");
    assert_eq!(org["before"], json!({"orgId": "acme", "tier": "gold"}));
    assert_eq!(org["after"]["timezone"], "Asia/Tokyo");
    org["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let id = tenant.items("/v1/tokens")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(told(6)["actor"], format!("token:{id}"));
    assert_eq!(told(7)["reason"], "a fair");
    assert_eq!(
        (&told(7)["orgId"], &told(7)["id"]),
        (&json!("acme"), &change["id"])
    );
    assert_eq!(told(8)["before"], json!({"appId": "web"}));
    assert_eq!(told(8)["after"], Value::Null);

    let mut seen = Vec::new();
    let mut target = "/v1/audit?limit=3".to_owned();
    loop {
        let page = admin.get(&target).expect(200);
        seen.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        target = format!("/v1/audit?limit=3&cursor={next}");
    }
    assert_eq!(seen, rows);
    let export = admin.get("/v1/audit?format=jsonl");
    let mut exported = lines(export.text());
    exported.reverse();
    assert_eq!(exported, rows);
    for target in ["/v1/audit?cursor=x", "/v1/audit?limit=0", "/v1/audit?format=xml"] {
        admin.get(target).problem(400);
    }
}

#[test]
fn an_export_comes_in_pieces_and_is_whole() {
    let (_server, admin) = golden();
    // More than are read at once, every third for another org.
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    for app in 0..300 {
        let org = if app % 3 == 0 { "globex" } else { "acme" };
        admin.set(&format!("/v1/orgs/{org}/apps/app-{app}"), &json!({}));
    }
    let export = |target: &str| {
        let export = admin.get(target);
        assert_eq!(export.header("content-type"), Some("application/jsonl"));
        assert!(export.is_in_pieces(), "{:?}", export.headers);
        lines(export.text())
    };
    let all = export("/v1/audit?format=jsonl");
    let revisions: Vec<u64> = all.iter().map(|row| row["revision"].as_u64().unwrap()).collect();
    assert_eq!(revisions, (1..=304).collect::<Vec<_>>());
    let mut own = all;
    own.retain(|row| row["orgId"] == "globex");
    assert_eq!(own.len(), 101);
    assert_eq!(export("/v1/orgs/globex/audit?format=jsonl"), own);
    let none = export("/v1/orgs/initech/audit?format=jsonl");
    assert_eq!(none, Vec::<Value>::new());
    // It has no pages, and still what can't be a page is a mistake.
    assert_eq!(export("/v1/orgs/globex/audit?format=jsonl&limit=1&cursor=2"), own);
    for slip in ["limit=", "limit=0", "limit=many", "cursor=G"] {
        admin.get(&format!("/v1/audit?format=jsonl&{slip}")).problem(400);
    }
}

#[test]
fn a_tenant_is_told_of_its_own_org_alone() {
    let (_server, admin) = golden();
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}/apps/web"), &json!({}));
        admin.key(org, "web", "live");
    }
    for role in ["tenant-admin", "tenant-viewer"] {
        let tenant = admin.with_role(role, Some("acme"));
        let own = tenant.items("/v1/audit");
        assert!(own.iter().any(|row| row["kind"] == "key"), "{own:?}");
        let concerns = |row: &Value| row["orgId"] == "acme" || (row["kind"] == "org" && row["id"] == "acme");
        assert!(own.iter().all(concerns), "{own:?}");
        assert_eq!(tenant.items("/v1/orgs/acme/audit"), own);
        assert_eq!(admin.items("/v1/orgs/acme/audit"), own);
        for target in ["/v1/audit?format=jsonl", "/v1/orgs/acme/audit?format=jsonl"] {
            let exported = lines(tenant.get(target).text());
            assert!(exported.len() >= own.len() && exported.iter().all(concerns));
        }
        tenant.get("/v1/orgs/globex/audit").problem(404);
        tenant.get("/v1/audit/verify").problem(403);
    }
    let operator = admin.with_role("operator", None);
    assert_eq!(operator.items("/v1/audit"), admin.items("/v1/audit"));
    operator.get("/v1/audit/verify").expect(200);
}

#[test]
fn a_tenant_is_told_who_made_and_revoked_its_tokens() {
    let (_server, admin) = golden();
    admin.set("/v1/orgs/acm", &json!({"tier": "gold"}));
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    let made = json!({"role": "tenant-viewer", "orgId": "acme", "name": "the dashboard"});
    let made = tenant.post("/v1/tokens", &made).expect(201);
    let id = made["id"].as_str().unwrap();
    tenant.remove(&format!("/v1/tokens/{id}"));
    // Nobody else's, whatever they are called.
    let other = admin.with_role("tenant-admin", Some("acm"));
    let name = "\",\"orgId\":\"acme\",\"";
    let named = json!({"role": "operator", "name": name});
    admin.post("/v1/tokens", &named).expect(201);

    let own = tenant.items("/v1/audit?limit=1000");
    let tokens: Vec<&Value> = own.iter().filter(|row| row["kind"] == "token").collect();
    let [revoked, making, tenants_own] = &tokens[..] else {
        panic!("{own:?}")
    };
    assert_eq!((&making["id"], &revoked["id"]), (&made["id"], &made["id"]));
    assert_eq!(making["after"]["name"], "the dashboard");
    assert_eq!(
        (&making["before"], &revoked["after"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(revoked["before"], making["after"]);
    assert_eq!(
        making["actor"],
        format!("token:{}", tenants_own["id"].as_str().unwrap())
    );
    assert_eq!(tenants_own["actor"], "admin-token");
    for row in tokens {
        assert_eq!(row["orgId"], "acme");
    }
    let mut exported = lines(tenant.get("/v1/audit?format=jsonl").text());
    exported.reverse();
    assert_eq!(exported, own);
    let text = json!(own).to_string();
    for secret in [tenant.secret(), made["secret"].as_str().unwrap(), "secret"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(own.iter().all(|row| row["after"].get("hash").is_none()), "{text}");
    let others = other.items("/v1/audit");
    assert_eq!(others.iter().filter(|row| row["kind"] == "token").count(), 1);
    // What goes with an org is told where the org's end is.
    admin.remove("/v1/orgs/acme");
    let gone = admin.items("/v1/orgs/acme/audit");
    assert_eq!(
        (&gone[0]["kind"], &gone[1]["kind"]),
        (&json!("org"), &json!("token"))
    );
}

#[test]
fn what_changed_nothing_is_not_told() {
    let (_server, admin) = golden();
    let before = admin.items("/v1/audit");
    admin
        .put("/v1/orgs/acme", &json!({"tier": "nothing"}))
        .problem(422);
    admin.put("/v1/orgs/acme?dryRun=true", &json!({})).expect(200);
    admin.delete("/v1/orgs/acme?dryRun=true").expect(200);
    admin.delete("/v1/tiers/gold").problem(409);
    admin.delete("/v1/tiers/absent").problem(404);
    admin.get("/v1/orgs/acme").expect(200);
    let stale = admin.ask("PUT", POLICIES).header("If-Match", "\"999\"");
    let stale = stale
        .body(hourly("gold-org", "gold", "org", 1).to_string())
        .send();
    stale.problem(412);
    assert_eq!(admin.items("/v1/audit"), before);
}

/// Changes the database behind the server's back, with whatever of the two programs there is.
fn sql(database: &Path, statement: &str) {
    let by_shell = Command::new("sqlite3").arg(database).arg(statement).status();
    let status = by_shell.or_else(|_| {
        let script =
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()";
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(database).arg(statement).status()
    });
    assert!(status.unwrap().success(), "{statement}");
}

#[test]
fn a_row_that_somebody_changed_is_found() {
    for (statement, broken) in [
        (
            "UPDATE tollgate_journal SET actor = 'nobody' WHERE revision = 2",
            2,
        ),
        (
            "UPDATE tollgate_journal SET after_body = '{}' WHERE revision = 1",
            1,
        ),
        (
            "UPDATE tollgate_journal SET at_ms = at_ms + 1 WHERE revision = 3",
            3,
        ),
        ("DELETE FROM tollgate_journal WHERE revision = 2", 2),
        ("DELETE FROM tollgate_journal WHERE revision = 3", 3),
    ] {
        let (server, admin) = golden();
        let verified = admin.get("/v1/audit/verify").expect(200);
        let head = admin.items("/v1/audit?limit=1")[0]["hash"].clone();
        assert_eq!(
            verified,
            json!({
                "intact": true, "rows": 3, "firstBroken": null, "differing": [],
                "head": {"revision": 3, "hash": head}, "keyedFrom": null,
            })
        );
        sql(&server.data("catalogue.sqlite3"), statement);
        let found = admin.get("/v1/audit/verify").expect(200);
        assert_eq!(found["intact"], false, "{statement}");
        assert_eq!(found["firstBroken"], broken, "{statement}");
        assert_eq!(found["rows"], broken - 1, "{statement}");
        still_serves(&server);
    }
}

fn still_serves(server: &Server) {
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 3);
}

/// What is wrong with the audit, as `verify` says.
fn verdict(admin: &Admin) -> (bool, Value, Vec<String>) {
    let verified = admin.get("/v1/audit/verify").expect(200);
    let differing = verified["differing"].as_array().unwrap().iter();
    let differing = differing.map(|one| one["kind"].as_str().unwrap().to_owned());
    let intact = verified["intact"].as_bool().unwrap();
    (intact, verified["firstBroken"].clone(), differing.collect())
}

#[test]
fn an_entry_that_was_changed_without_a_row_is_found() {
    for (statement, kind) in [
        (
            "UPDATE tollgate_entries SET body = REPLACE(body, '\"limit\":3', '\"limit\":999999') WHERE kind = 'policy'",
            "policy",
        ),
        (
            "UPDATE tollgate_entries SET body = REPLACE(body, 'operator', 'platform-admin') WHERE kind = 'token'",
            "token",
        ),
        (
            "UPDATE tollgate_entries SET body = (SELECT REPLACE(body, 'hash\":\"', 'hash\":\"0') FROM tollgate_entries \
             WHERE kind = 'token') WHERE kind = 'token'",
            "token",
        ),
        ("DELETE FROM tollgate_entries WHERE kind = 'policy'", "policy"),
        (
            "INSERT INTO tollgate_entries (kind, org, id, body, revision) VALUES ('tier', '', 'free', '{}', 3)",
            "tier",
        ),
        (
            "UPDATE tollgate_entries SET revision = 1 WHERE kind = 'org'",
            "org",
        ),
    ] {
        let (server, admin) = golden();
        admin.with_role("operator", None);
        admin.set("/v1/orgs/gone", &json!({}));
        admin.remove("/v1/orgs/gone");
        assert_eq!(verdict(&admin), (true, Value::Null, Vec::new()));
        sql(&server.data("catalogue.sqlite3"), statement);
        assert_eq!(
            verdict(&admin),
            (false, Value::Null, vec![kind.to_owned()]),
            "{statement}"
        );
    }
}

/// A server whose audit has a tail that nothing in the database shows, if it is cut: a tier made and deleted again.
fn with_a_tail(flags: &[&str], files: &[(&str, &str)]) -> Server {
    let server = Server::launch(&Launch {
        flags,
        files,
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set("/v1/tiers/gold", &json!({}));
    admin.set("/v1/tiers/silver", &json!({}));
    admin.remove("/v1/tiers/silver");
    assert_eq!(verdict(&admin), (true, Value::Null, Vec::new()));
    wait_for("the audit's end among the metrics", || {
        let metrics = server.metrics();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("tollgate_audit_head{hash="))?;
        line.ends_with(" 3").then_some(())
    });
    server
}

/// Cuts the audit after its first row, and sets its head back to that.
fn cut(server: &Server) {
    let database = server.data("catalogue.sqlite3");
    sql(&database, "DELETE FROM tollgate_journal WHERE revision > 1");
    sql(
        &database,
        "UPDATE tollgate_head SET revision = 1, hash = (SELECT hash FROM tollgate_journal WHERE revision = 1)",
    );
}

#[test]
fn a_tail_that_was_cut_is_found_by_what_this_node_has_seen() {
    let mut server = with_a_tail(&[], &[]);
    server.logs("the end of the audit");
    cut(&server);
    let admin = server.platform_admin();
    assert_eq!(verdict(&admin), (false, json!(2), Vec::new()));
    server.restart("TERM");
    let admin = server.platform_admin();
    assert_eq!(verdict(&admin), (false, json!(2), Vec::new()));
    // Nor is it forgotten once the audit is longer than it was.
    for tier in ["a", "b", "c", "d"] {
        admin.set(&format!("/v1/tiers/{tier}"), &json!({}));
    }
    assert_eq!(verdict(&admin), (false, json!(3), Vec::new()));
    wait_for("the metric", || {
        (server.counted("tollgate_audit_contradicted ") == 1).then_some(())
    });
    server.logs("audit-anchor");
}

const KEY: &str = "a key of more than sixteen bytes";

#[test]
fn a_tail_that_was_cut_is_found_by_the_key() {
    let mut server = with_a_tail(&["--audit-key", "key"], &[("key", KEY)]);
    assert_eq!(
        server.platform_admin().get("/v1/audit/verify").expect(200)["keyedFrom"],
        1
    );
    server.end("TERM");
    std::fs::remove_file(server.data("audit-anchor")).unwrap();
    cut(&server);
    server.start_again();
    let admin = server.platform_admin();
    assert_eq!(verdict(&admin), (false, json!(1), Vec::new()));
    // What is written on does not make it good.
    admin.set("/v1/tiers/bronze", &json!({}));
    assert_eq!(verdict(&admin), (false, json!(2), Vec::new()));
}

#[test]
fn rows_made_without_the_key_are_found_and_those_before_it_are_not() {
    let mut server = with_a_tail(&[], &[("key", KEY)]);
    server.end("TERM");
    server.give(&["--audit-key", "key"]);
    server.start_again();
    let admin = server.platform_admin();
    wait_for("the seal", || verdict(&admin).0.then_some(()));
    admin.set("/v1/tiers/bronze", &json!({}));
    assert_eq!(verdict(&admin), (true, Value::Null, Vec::new()));
    assert_eq!(admin.get("/v1/audit/verify").expect(200)["keyedFrom"], 4);
    // Whoever has the database alone makes a row that fits as well as they can.
    sql(
        &server.data("catalogue.sqlite3"),
        "UPDATE tollgate_journal SET actor = 'nobody', hash = 'f' || SUBSTR(hash, 2) WHERE revision = 4",
    );
    assert_eq!(verdict(&admin).1, 4);
}

#[test]
fn a_key_that_is_none_is_an_error() {
    for (files, said) in [(vec![], "key"), (vec![("key", "short")], "16 bytes")] {
        let dir = tempfile::TempDir::new().unwrap();
        for (name, text) in &files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let key = dir.path().join("key").display().to_string();
        let data = dir.path().join("data").display().to_string();
        let ended = crate::common::run(&[
            "serve",
            "--data-dir",
            &data,
            "--audit-key",
            &key,
            "--http",
            "127.0.0.1:0",
        ]);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended.stderr.contains("--audit-key") && ended.stderr.contains(said),
            "{ended:?}"
        );
    }
}
