//! A node that is restarted while its database is away goes on from what it kept on disk.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fleet::{
    ORG, delete, found, limit_of, node, node_alone, override_of, override_to, put_policy, seen, sees, until,
    write,
};
use crate::postgres::Postgres;

#[test]
fn a_node_starts_without_its_database() {
    let mut postgres = Postgres::start();
    let database = postgres.create();
    let (mut a, b) = (node(&database), node(&database));
    found(&a, 1_000);
    override_to(&a, 700);
    write(&a, "PUT", &format!("/v1/orgs/{ORG}/apps/web"), &json!({}));
    let keys = format!("/v1/orgs/{ORG}/apps/web/keys");
    let made = crate::fleet::admin(&a, "POST", &keys)
        .body("{}")
        .send()
        .expect(201);
    // What another node wrote is kept here, too.
    let (_, last) = override_to(&b, 800);
    sees(&a, 800);
    let file = a.data("catalogue.snapshot");
    let complete = format!("[{last}]");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().last() == Some(&complete)
    });
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    postgres.kill();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(800));
    let by_key = a.check(&json!({"apiKey": made["secret"], "cost": 0}));
    assert_eq!(by_key.status, 200, "{}", by_key.text());
    assert_eq!(a.counted("tollgate_catalogue_from_disk"), 1);
    let ready = a.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["catalogueFrom"], "disk");
    assert_eq!(ready["catalogueRevision"], last);

    postgres.start_again();
    until("the database to confirm it", || {
        a.counted("tollgate_catalogue_from_disk") == 0
    });
    let ready = a.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["catalogueFrom"], "database");
    put_policy(&b, 2_000);
    override_to(&b, 900);
    sees(&a, 900);
    override_to(&a, 950);
    sees(&b, 950);
}

#[test]
fn half_a_line_at_the_end_of_the_file_does_no_harm() {
    let mut postgres = Postgres::start();
    let mut a = node(&postgres.create());
    found(&a, 1_000);
    let (_, last) = override_to(&a, 700);
    let file = a.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("[{last}]\n"))
    });
    postgres.kill();
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("[9,\"override\",\"ac");
    std::fs::write(&file, text).unwrap();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(700));
    postgres.start_again();
    until("the database to confirm it", || {
        a.counted("tollgate_catalogue_from_disk") == 0
    });
    let (_, last) = override_to(&a, 750);
    until("the file to be whole again", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    postgres.kill();
    a.restart("KILL");
    assert_eq!(seen(&a), Some(750));
}

#[test]
fn idle_orgs_lie_on_disk_until_they_are_asked_for() {
    let mut node = node_alone();
    found(&node, 1_000);
    write(&node, "PUT", "/v1/tiers/gold", &json!({"tier": "gold"}));
    for org in ["first", "second", "third", "fourth"] {
        write(&node, "PUT", &format!("/v1/orgs/{org}"), &json!({"tier": "gold"}));
        override_of(&node, org, 70);
    }
    node.restart("KILL");
    // Each org's states lie side by side.
    let file = node.data("catalogue.snapshot");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut orgs: Vec<String> = text.lines().filter_map(org_of).collect();
    orgs.dedup();
    assert_eq!(orgs, ["acme", "first", "fourth", "second", "third"]);
    assert_eq!(limit_of(&node, "first"), Some(70));
    // What is changed by now is in memory, and what is not is still found on disk by who looks for it.
    override_of(&node, "second", 80);
    assert_eq!(limit_of(&node, "second"), Some(80));
    let answer = crate::fleet::admin(&node, "DELETE", "/v1/tiers/gold").send();
    let detail = answer.problem(409);
    assert!(detail.contains("4 orgs"), "{detail}");
    let policy = crate::fleet::admin(&node, "DELETE", "/v1/ratelimit/policies/org-rate").send();
    let detail = policy.problem(409);
    assert!(detail.contains("5 overrides"), "{detail}");
    // An org that can't be read any more is not taken for another.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(0)
        .unwrap();
    assert_eq!(limit_of(&node, "first"), Some(70));
    assert_eq!(limit_of(&node, "second"), Some(80));
    let check = node.check(&json!({"orgId": "third", "cost": 0}));
    let detail = check.problem(503);
    assert!(detail.contains("what is known of the org"), "{detail}");
    assert_eq!(limit_of(&node, "nobody"), Some(1_000));
    node.logs("can't be read from the catalogue on disk");
    node.restart("KILL");
    assert_eq!(limit_of(&node, "third"), Some(70));
}

#[test]
fn what_was_appended_to_the_file_counts_with_what_it_began_with() {
    let mut postgres = Postgres::start();
    let mut a = node(&postgres.create());
    found(&a, 1_000);
    for org in ["first", "second", "third"] {
        write(&a, "PUT", &format!("/v1/orgs/{org}"), &json!({}));
        override_of(&a, org, 70);
    }
    // The next one begins the file with all that.
    a.restart("TERM");
    override_of(&a, "second", 80);
    delete(&a, "/v1/orgs/third");
    let last = a.ask_admin("GET", "/readyz").send().expect(200)["catalogueRevision"].clone();
    let file = a.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    postgres.kill();
    a.restart("KILL");
    assert_eq!(a.counted("tollgate_catalogue_from_disk"), 1);
    let limits = ["first", "second", "third"].map(|org| limit_of(&a, org));
    assert_eq!(limits, [Some(70), Some(80), Some(1_000)]);
}

/// The org whose state a line of the file is.
fn org_of(line: &str) -> Option<String> {
    let line: Vec<serde_json::Value> = serde_json::from_str(line).unwrap();
    match line.get(1)?.as_str()? {
        "org" => line[3].as_str().map(str::to_owned),
        "override" => line[2].as_str().map(str::to_owned),
        _ => None,
    }
}
