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

/// A node with a policy of its own in the database, and an org whose limit is lower, all of it on disk.
fn kept(database: &str) -> (crate::common::Server, std::path::PathBuf) {
    let node = node(database);
    found(&node, 1_000);
    let (_, last) = override_to(&node, 700);
    let file = node.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    (node, file)
}

/// Where nothing tells what was in force, a node that started would let everybody through.
#[test]
fn a_damaged_file_is_none() {
    let mut postgres = Postgres::start();
    let (mut node, file) = kept(&postgres.create());
    node.end("KILL");
    postgres.kill();
    let whole = std::fs::read(&file).unwrap();
    let lines: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let half_garbled = {
        let mut garbled = whole.clone();
        let place = whole.windows(3).rposition(|bytes| bytes == b"700").unwrap();
        garbled[place] = b'8';
        garbled
    };
    let cut = lines
        .iter()
        .map(|end| whole[..=*end].to_vec())
        .take(lines.len() - 1);
    let mut damaged: Vec<Vec<u8>> = cut.collect();
    damaged.extend([
        Vec::new(),
        b"[0]\n".to_vec(),
        b"\n".to_vec(),
        b"junk\n".to_vec(),
        whole[..whole.len() * 2 / 3].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        half_garbled,
    ]);
    for bytes in damaged {
        std::fs::write(&file, &bytes).unwrap();
        let refused = node.refuses_to_start();
        assert!(
            refused.contains("--database: "),
            "{refused}\n{}",
            String::from_utf8_lossy(&bytes)
        );
    }
    std::fs::write(&file, &whole).unwrap();
    node.start_again();
    assert_eq!(seen(&node), Some(700));
}

/// All there is to know is that there is nothing: the node serves what its policy file says.
#[test]
fn a_node_with_only_a_policy_file_starts_without_its_database() {
    let mut postgres = Postgres::start();
    let database = postgres.create();
    let mut node = crate::common::Server::launch(&crate::common::Launch {
        policies: Some("policies: [{id: org-rate, scope: org, limit: 70, window: 1h}]\n"),
        flags: &[
            "--database",
            &database,
            "--admin-token",
            crate::fleet::TOKEN,
            "--threads",
            "1",
        ],
        ..crate::common::Launch::default()
    });
    assert_eq!(seen(&node), Some(70));
    // There is no entry, only a row of the audit: what the file says.
    let file = node.data("catalogue.snapshot");
    until("the file to be up to date", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with("\n[1]\n"))
    });
    postgres.kill();
    for signal in ["TERM", "KILL"] {
        node.restart(signal);
        assert_eq!(seen(&node), Some(70));
        let ready = node.ask_admin("GET", "/readyz").send().expect(200);
        assert_eq!(ready["catalogueFrom"], "disk");
        assert_eq!(ready["catalogueRevision"], 1);
    }
    // An empty file is not an empty catalogue.
    node.end("KILL");
    std::fs::write(&file, "").unwrap();
    let refused = node.refuses_to_start();
    assert!(refused.contains("--database: "), "{refused}");
}

#[test]
fn nobody_else_can_read_the_data_directory() {
    let postgres = Postgres::start();
    for node in [node_alone(), node(&postgres.create())] {
        found(&node, 1_000);
        let directory = node.data("");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        let mut names = Vec::new();
        for file in std::fs::read_dir(&directory).unwrap() {
            let file = file.unwrap();
            assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
            names.push(file.file_name().into_string().unwrap());
        }
        assert!(names.contains(&"lock".to_owned()), "{names:?}");
        // The journal of quotas lies beside it.
        for file in std::fs::read_dir(&node.dir).unwrap() {
            let path = file.unwrap().path();
            assert!(path.is_dir() || mode(&path) == 0o600, "{}", path.display());
        }
    }
}

#[test]
fn what_an_earlier_version_left_open_is_closed() {
    let mut node = node_alone();
    found(&node, 1_000);
    node.end("TERM");
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&node.data(""), 0o755);
    set(&node.data("catalogue.sqlite3"), 0o644);
    node.start_again();
    let mode = |name| node.data(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("catalogue.sqlite3")), (0o700, 0o600));
    assert_eq!(seen(&node), Some(1_000));
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
