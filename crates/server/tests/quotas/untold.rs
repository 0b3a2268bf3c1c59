//! What quotas let through while the ledger is unavailable, of counters that it has never heard of: it is told when it
//! answers again, or when the server ends, even if nobody asks for them any more.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;

use crate::common::{Launch, Server, file_of, wait_for};
use crate::postgres::Postgres;
use crate::world::{org, quota, serve};

fn policies() -> [String; 2] {
    [
        quota("open", 200, "requiredScope: open, failMode: open"),
        quota("local", 200, "requiredScope: local, failMode: local"),
    ]
}

/// A server that knows that its database is gone.
fn without_database(postgres: &mut Postgres, url: &str) -> Server {
    let server = serve(Some(url), &policies());
    lose_database(postgres, &server);
    server
}

/// Ends its database, and waits until it knows.
fn lose_database(postgres: &mut Postgres, server: &Server) {
    for org in ["open", "local"] {
        server
            .platform_admin()
            .set(&format!("/v1/orgs/{org}"), &json!({}));
    }
    server.allowed(&json!({"orgId": "somebody", "scopes": ["open"]}));
    postgres.kill();
    wait_for("the ledger to be unavailable", || {
        let _ = server.check(&json!({"orgId": "nobody", "scopes": ["open"]}));
        (server.counted("tollgate_ledger_away") == 1).then_some(())
    });
}

/// Asks so often for an org in a scope, and says how many were allowed.
fn spend(server: &Server, name: &str, scope: &str, times: u64) -> u64 {
    let mut body = org(name);
    body["scopes"] = json!([scope]);
    let allowed = (0..times).filter(|_| server.check(&body).status == 200);
    allowed.count() as u64
}

/// What an org has used by its only quota.
fn used(server: &Server, org: &str) -> u64 {
    let quotas = server.platform_admin().items(&format!("/v1/orgs/{org}/quotas"));
    quotas.iter().map(|quota| quota["used"].as_u64().unwrap()).sum()
}

/// What its statement says.
fn stated(server: &Server, org: &str) -> u64 {
    let statement = format!("/v1/orgs/{org}/quotas/statement");
    let statement = server.platform_admin().get(&statement).expect(200);
    statement["cost"].as_u64().unwrap()
}

#[test]
fn what_was_let_through_is_told_when_the_ledger_answers_again() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    let server = without_database(&mut postgres, &url);
    let open = spend(&server, "open", "open", 150);
    let local = spend(&server, "local", "local", 150);
    assert_eq!(open, 150);
    assert!((1..=140).contains(&local), "{local}");
    postgres.start_again();
    // Nobody asks for them any more.
    for (org, let_through) in [("open", open), ("local", local)] {
        wait_for("what was let through", || {
            let told = (used(&server, org), stated(&server, org));
            (told == (let_through, let_through)).then_some(())
        });
    }
    // Another node lets through the rest, and no more.
    server.terminate();
    assert!(server.wait().success());
    let other = serve(Some(&url), &policies());
    assert_eq!(spend(&other, "open", "open", 100), 50);
}

#[test]
fn what_was_let_through_is_told_at_the_end() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    let server = without_database(&mut postgres, &url);
    assert_eq!(spend(&server, "open", "open", 150), 150);
    postgres.start_again();
    server.terminate();
    assert!(server.wait().success());
    let row = "SELECT mark, used FROM tollgate_ledger WHERE org = 'open'";
    assert_eq!(postgres.sql(&url, row), "150|150");
}

/// The files in which runs have left what they could not tell.
fn wills(server: &Server) -> Vec<PathBuf> {
    let files = server.dir.path().join("tollgate-data").read_dir().unwrap();
    let files = files.map(|file| file.unwrap().path());
    let is_will = |path: &PathBuf| path.to_str().unwrap().contains("ledger-will-");
    files.filter(is_will).collect()
}

#[test]
fn what_was_let_through_outlives_a_stop_while_the_ledger_is_unavailable() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    let mut server = without_database(&mut postgres, &url);
    assert_eq!(spend(&server, "open", "open", 100), 100);
    let local = spend(&server, "local", "local", 150);
    assert!((1..=140).contains(&local), "{local}");
    server.restart("TERM");
    let left = wills(&server);
    assert_eq!(left.len(), 1);
    let mode = left[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next run lets some through as well, and ends before the database is back.
    assert_eq!(spend(&server, "open", "open", 20), 20);
    server.end("TERM");
    assert_eq!(wills(&server).len(), 2);
    postgres.start_again();
    server.start_again();
    for (org, let_through) in [("open", 120), ("local", local)] {
        assert_eq!(used(&server, org), let_through, "{org}");
        assert_eq!(stated(&server, org), let_through, "{org}");
    }
    assert_eq!(spend(&server, "open", "open", 200), 80);
    assert!(wills(&server).is_empty());
    // Nothing of it is told again.
    server.restart("TERM");
    assert_eq!(used(&server, "open"), 200);
    assert_eq!(used(&server, "local"), local);
}

#[test]
fn what_is_owed_outlives_a_stop_without_a_journal() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    let mut server = Server::launch(&Launch {
        policies: Some(&file_of(&policies())),
        flags: &["--threads", "1", "--database", &url],
        environment: &[("TOLLGATE_QUOTA_JOURNAL", "off")],
        ..Launch::default()
    });
    // The ledger knows of this one, and the node holds a chunk of it.
    assert_eq!(spend(&server, "open", "open", 20), 20);
    lose_database(&mut postgres, &server);
    assert_eq!(spend(&server, "open", "open", 100), 100);
    server.end("TERM");
    postgres.start_again();
    server.start_again();
    assert_eq!(used(&server, "open"), 120);
    assert_eq!(spend(&server, "open", "open", 200), 80);
}

/// Two nodes on one PostgreSQL. One lets requests through while it is unavailable, the policy becomes another, and the
/// database answers again.
#[test]
fn what_is_told_late_reaches_the_quota_that_replaced_it() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    let before = [quota("q", 100, "failMode: open")];
    let [a, b] = [(); 2].map(|()| serve(Some(&url), &before));
    assert_eq!(crate::world::spend(&b, "acme", 10), 10);
    postgres.kill();
    for node in [&a, &b] {
        wait_for("the ledger to be unavailable", || {
            let _ = node.check(&org("nobody"));
            (node.counted("tollgate_ledger_away") == 1).then_some(())
        });
    }
    assert_eq!(crate::world::spend(&b, "acme", 40), 40);
    let after = [quota("q", 100, "failMode: open, counter: another")];
    for node in [&a, &b] {
        node.reload(&file_of(&after));
    }
    postgres.start_again();
    // The other node opens the new row before this one has told what it let through, or at about the same time.
    wait_for("the ledger to answer", || {
        a.allowed(&json!({"orgId": "acme", "cost": 0}));
        (a.counted("tollgate_ledger_away") == 0).then_some(())
    });
    let early = crate::world::spend(&a, "acme", 1);
    wait_for("what was let through", || {
        // Less what it held of the old row when the database went away.
        let reported = "SELECT SUM(reported) BETWEEN 30 AND 40 FROM tollgate_ledger WHERE org = 'acme'";
        (postgres.sql(&url, reported) == "t").then_some(())
    });
    let more = crate::world::spend(&a, "acme", 100) + crate::world::spend(&b, "acme", 100);
    assert!(early + more <= 50, "{early} and {more}");
    assert!(early + more >= 40, "{early} and {more}");
}
