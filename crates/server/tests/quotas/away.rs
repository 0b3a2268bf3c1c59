//! PostgreSQL goes away under load: nothing fails while chunks last, then each quota does as its `failMode` says.

use serde_json::json;

use crate::common::server::{limit, remaining};
use crate::common::{hourly, wait_for};
use crate::postgres::Postgres;
use crate::world::{left, org, quota, serve, spend};

#[test]
fn each_quota_does_as_it_says_while_the_database_is_away() {
    let mut postgres = Postgres::start();
    let policies = [
        quota("closed", 100_000, "requiredScope: closed"),
        quota("open", 100_000, "requiredScope: open, failMode: open"),
        quota("local", 1_000, "requiredScope: local, failMode: local"),
        hourly("rate", "org", 1_000_000, ""),
    ];
    let server = serve(Some(&postgres.create()), &policies);
    let check = |scope: &str| json!({"orgId": "acme", "scopes": [scope]});
    for scope in ["closed", "open", "local"] {
        // Enough for a chunk that lasts for a while.
        for _ in 0..200 {
            server.allowed(&check(scope));
        }
    }
    let used = |scope: &str, of: u64| {
        let mut body = check(scope);
        body["cost"] = json!(0);
        of - remaining(&server.allowed(&body), scope)
    };
    postgres.kill();
    // Nobody notices at first.
    for scope in ["closed", "open", "local"] {
        server.allowed(&check(scope));
    }
    // Then it is used up.
    let mut closed = 201;
    loop {
        let answer = server.check(&check("closed"));
        match answer.status {
            200 => closed += 1,
            503 => break,
            other => panic!("{other}: {}", answer.text()),
        }
        assert!(closed < 3_000, "more than two chunks of a hundredth each");
    }
    wait_for("the ledger to be away", || {
        (server.counted("tollgate_ledger_away") == 1).then_some(())
    });
    let problem = server.check(&check("closed"));
    assert_eq!(problem.expect(503)["error"], "limiter_unavailable");
    assert!(problem.header("retry-after").is_some());
    // An org that nothing is known of can be looked at, and is told that it is a guess.
    let look = json!({"orgId": "unknown", "scopes": ["closed"], "cost": 0});
    assert_eq!(server.allowed(&look)["degraded"], true);
    // What has no quota is not concerned, and looking is always allowed.
    server.allowed(&org("acme"));
    assert_eq!(used("closed", 100_000), closed);
    let (mut open, mut degraded) = (201, 0);
    while degraded < 20 {
        let decision = server.allowed(&check("open"));
        open += 1;
        degraded += u64::from(decision["degraded"] == true);
    }
    let (mut local, mut denied) = (201, 0);
    for _ in 0..1_000 {
        match server.check(&check("local")).status {
            200 => local += 1,
            429 => denied += 1,
            other => panic!("{other}"),
        }
    }
    // Seven tenths by itself, and what it held.
    assert!((700..=1_000).contains(&local) && denied > 0, "{local}");
    assert!(server.counted("tollgate_ledger_refused_total") > 0);
    assert!(server.counted("tollgate_ledger_fallback_decisions_total") > 0);

    postgres.start_again();
    wait_for("the ledger to answer again", || {
        (server.counted("tollgate_ledger_away") == 0).then_some(())
    });
    server.allowed(&check("closed"));
    assert_eq!(used("closed", 100_000), closed + 1);
    wait_for("what is owed to be told", || {
        (used("open", 100_000) == open).then_some(())
    });
    assert_eq!(used("local", 1_000), local);
    server.logs("the quota ledger answers again");
}

#[test]
fn a_database_that_hangs_is_waited_for_and_then_not() {
    let postgres = Postgres::start();
    let server = serve(Some(&postgres.create()), &[quota("org-day", 100, "")]);
    assert_eq!(spend(&server, "acme", 3), 3);
    postgres.pause();
    // An org that nothing is known of.
    assert_eq!(server.check(&org("other")).status, 503);
    wait_for("the ledger to be away", || {
        let _ = server.check(&org("other"));
        (server.counted("tollgate_ledger_away") == 1).then_some(())
    });
    postgres.resume();
    wait_for("the ledger to answer again", || {
        (server.check(&org("other")).status == 200).then_some(())
    });
    assert_eq!(left(&server, "other", "org-day"), 99);
    assert_eq!(left(&server, "acme", "org-day"), 97);
    let decision = server.allowed(&org("acme"));
    assert_eq!(limit(&decision, "org-day")["remaining"], 96);
}
