//! `kill -9` at a random moment under load: never over, nothing that was answered is missing, and nothing is lost.
//!
//! A dozen kills on each database here; `TOLLGATE_KILLS=500 cargo nextest run -p tollgate --test quotas killed
//! --no-capture` is the long run. Each prints a table.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::common::clock::pause;
use crate::common::{DEADLINE, Launch, Server, file_of};
use crate::load::Load;
use crate::postgres::Postgres;
use crate::world::{left, quota, serve, spend};

const LIMIT: u64 = 20_000;
const CLIENTS: usize = 3;
/// Kills of one org's quota before the next org's turn.
const ROUNDS: usize = 4;

#[test]
fn a_killed_node_is_never_over_with_sqlite() {
    kill_again_and_again("sqlite", None);
}

#[test]
fn a_killed_node_is_never_over_with_postgres() {
    let postgres = Postgres::start();
    kill_again_and_again("postgres", Some(&postgres.create()));
}

/// What came of one org's kills.
#[derive(Default)]
struct Sums {
    kills: u64,
    answered: u64,
    over: u64,
    missing: u64,
    lost: u64,
    most_lost: u64,
    slowest_start: Duration,
}

fn kill_again_and_again(backend: &str, database: Option<&str>) {
    let kills = std::env::var("TOLLGATE_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut server = serve(database, &[quota("org-day", LIMIT, "")]);
    let mut sums = Sums::default();
    let mut orgs = 0;
    while sums.kills < kills {
        orgs += 1;
        kill_with(&mut server, &format!("org-{orgs}"), &mut sums);
    }
    println!("| database | kills | answered | over | missing | lost a kill | most lost | slowest restart |");
    println!("|---|---|---|---|---|---|---|---|");
    println!(
        "| {backend} | {} | {} | {} | {} | {} | {} | {:?} |",
        sums.kills,
        sums.answered,
        sums.over,
        sums.missing,
        sums.lost / sums.kills,
        sums.most_lost,
        sums.slowest_start
    );
    assert_eq!((sums.over, sums.missing), (0, 0));
    // What it held is in its journal.
    assert_eq!(sums.most_lost, 0);
}

fn kill_with(server: &mut Server, org: &str, sums: &mut Sums) {
    let mut answered = 0;
    let mut used = 0;
    for _ in 0..ROUNDS {
        let now = AtomicU64::new(0);
        // How many requests were under way when it died: they may be counted or not.
        let open = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (now, open, address) = (&now, &open, server.http);
                scope.spawn(move || {
                    let mut load = Load::on(address, org);
                    loop {
                        match load.check() {
                            Some(200) => _ = now.fetch_add(1, Ordering::Relaxed),
                            Some(429 | 503) => {}
                            Some(other) => panic!("{other}"),
                            None => break,
                        }
                    }
                    open.fetch_add(1, Ordering::Relaxed);
                });
            }
            let begun = Instant::now();
            while now.load(Ordering::Relaxed) < 20 && begun.elapsed() < DEADLINE {
                // A loop that only yields keeps new processes, such as those of PostgreSQL, waiting for seconds.
                pause(Duration::from_millis(1));
            }
            pause(Duration::from_micros(getrandom::u64().unwrap() % 150_000));
            let killed = Instant::now();
            server.restart("KILL");
            sums.slowest_start = sums.slowest_start.max(killed.elapsed());
        });
        let now = now.into_inner();
        answered += now;
        let known = LIMIT - left(server, org, "org-day");
        // Whatever was answered is used, and what is used was answered, open, or a chunk.
        sums.missing += answered.saturating_sub(known);
        assert!(known >= used, "{used} were used, and then {known}");
        let lost = (known - used).saturating_sub(now + open.into_inner());
        sums.lost += lost;
        sums.most_lost = sums.most_lost.max(lost);
        sums.kills += 1;
        sums.answered += now;
        used = known;
    }
    // All that is left, and not one more.
    let mut load = Load::on(server.http, org);
    while let Some(200) = load.check() {
        answered += 1;
    }
    sums.over += answered.saturating_sub(LIMIT);
    assert_eq!(left(server, org, "org-day"), 0);
}

/// A server on a database that notes what it has left in a directory, or not.
fn noting(journal: &Path, database: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(&file_of(&[quota("org-day", LIMIT, "")])),
        flags: &["--threads", "1", "--database", database],
        environment: &[("TOLLGATE_QUOTA_JOURNAL", journal.to_str().unwrap())],
        ..Launch::default()
    })
}

#[test]
fn what_is_shown_after_a_kill_is_what_was_used_with_sqlite() {
    look_after_kills(None);
}

#[test]
fn what_is_shown_after_a_kill_is_what_was_used_with_postgres() {
    let postgres = Postgres::start();
    look_after_kills(Some(&postgres.create()));
}

/// Looks at what was used as soon as a server listens again that was killed.
fn look_after_kills(database: Option<&str>) {
    let mut server = serve(database, &[quota("org-day", LIMIT, "")]);
    server.platform_admin().set("/v1/orgs/acme", &json!({}));
    for round in 1..=5 {
        assert_eq!(spend(&server, "acme", 200), 200);
        server.restart("KILL");
        let quotas = server.platform_admin().items("/v1/orgs/acme/quotas");
        assert_eq!(quotas[0]["used"], round * 200, "{quotas:?}");
    }
}

#[test]
fn what_a_run_has_left_is_settled_once() {
    let (postgres, journals) = (Postgres::start(), TempDir::new().unwrap());
    let database = postgres.create();
    let killed = noting(journals.path(), &database);
    assert_eq!(spend(&killed, "acme", 300), 300);
    assert_eq!(journals.path().read_dir().unwrap().count(), 1);
    killed.signal("KILL");
    killed.wait();
    // Whichever finds it first settles it, and nobody takes the other's.
    let settled = |server: &Server| !server.metrics().contains("tollgate_ledger_recovered_total 0\n");
    std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                let server = noting(journals.path(), &database);
                assert_eq!(spend(&server, "acme", 10), 10);
                let settled = settled(&server);
                server.signal("TERM");
                server.wait();
                settled
            })
        };
        let started = [start(), start()].map(|started| started.join().unwrap());
        assert!(started[0] != started[1], "{started:?}");
    });
    assert_eq!(journals.path().read_dir().unwrap().count(), 0);
    let last = noting(journals.path(), &database);
    assert_eq!(left(&last, "acme", "org-day"), LIMIT - 320);
    assert!(!settled(&last));
}

#[test]
fn what_a_run_has_left_waits_for_the_database() {
    let (mut postgres, journals) = (Postgres::start(), TempDir::new().unwrap());
    let database = postgres.create();
    let mut server = noting(journals.path(), &database);
    assert_eq!(spend(&server, "acme", 300), 300);
    postgres.kill();
    server.restart("KILL");
    // It starts from its disk, and is killed again before it could settle anything.
    server.restart("KILL");
    postgres.start_again();
    assert_eq!(spend(&server, "acme", 1), 1);
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "org-day"), LIMIT - 301);
    assert_eq!(journals.path().read_dir().unwrap().count(), 1, "its own");
}

#[test]
fn without_a_journal_a_killed_node_loses_a_chunk() {
    let postgres = Postgres::start();
    let mut server = noting(Path::new("off"), &postgres.create());
    assert_eq!(spend(&server, "acme", 300), 300);
    server.restart("KILL");
    let left = left(&server, "acme", "org-day");
    // A chunk is at most a hundredth, and there may be one under way besides the one that is spent.
    let lost = LIMIT - 300 - left;
    assert!(lost > 0 && lost <= 2 * LIMIT / 100, "{lost}");
}
