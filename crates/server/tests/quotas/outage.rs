//! PostgreSQL is away while a load goes on. Seconds here; `TOLLGATE_AWAY=180 cargo nextest run -p tollgate --test quotas
//! outage --no-capture` has it away for minutes. Prints a table.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::common::server::remaining;
use crate::common::wait_for;
use crate::load::Load;
use crate::postgres::Postgres;
use crate::world::{quota, serve};

/// Limits by their fail modes. Only the last is small enough to be used up.
const MODES: [(&str, u64); 3] = [("closed", 50_000_000), ("open", 50_000_000), ("local", 20_000)];
const PHASES: [&str; 3] = ["before", "away", "after"];
const WITH_DATABASE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Counts {
    allowed: AtomicU64,
    denied: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    fn note(&self, status: Option<u16>) {
        let count = match status {
            Some(200) => &self.allowed,
            Some(429) => &self.denied,
            Some(503) => &self.refused,
            other => panic!("{other:?}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> [u64; 3] {
        [&self.allowed, &self.denied, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }
}

#[test]
fn a_database_is_away_under_load() {
    let away = std::env::var("TOLLGATE_AWAY").map_or(3, |seconds| seconds.parse().unwrap());
    let mut postgres = Postgres::start();
    let policies = MODES.map(|(mode, limit)| {
        let terms = format!("requiredScope: {mode}, failMode: {mode}");
        quota(mode, limit, &terms)
    });
    let server = serve(Some(&postgres.create()), &policies);
    let ledger_is_away = || server.counted("tollgate_ledger_away") == 1;
    let phase = AtomicUsize::new(0);
    let counts: [[Counts; 3]; 3] = Default::default();
    std::thread::scope(|scope| {
        for ((mode, _), counts) in MODES.iter().zip(&counts) {
            let (phase, address) = (&phase, server.http);
            scope.spawn(move || {
                let mut load = Load::asking(address, &json!({"orgId": "acme", "scopes": [mode]}));
                while let Some(counts) = counts.get(phase.load(Ordering::Relaxed)) {
                    counts.note(load.check());
                }
            });
        }
        let next = || phase.fetch_add(1, Ordering::Relaxed);
        pause(WITH_DATABASE);
        next();
        postgres.kill();
        pause(Duration::from_secs(away));
        wait_for("the ledger to be away", || ledger_is_away().then_some(()));
        // How long a chunk lasts depends on how quick the machine was before, and is now.
        let [closed, _, local] = &counts;
        wait_for("a chunk to be used up", || (closed[1].all()[2] > 0).then_some(()));
        wait_for("a node's share to end", || (local[1].all()[1] > 0).then_some(()));
        postgres.start_again();
        wait_for("the ledger to answer again", || (!ledger_is_away()).then_some(()));
        next();
        pause(WITH_DATABASE);
        next();
    });
    println!("| failMode | | allowed | denied | refused |\n|---|---|---|---|---|");
    for ((mode, _), counts) in MODES.iter().zip(&counts) {
        for (phase, counts) in PHASES.iter().zip(counts) {
            let [allowed, denied, refused] = counts.all();
            println!("| {mode} | {phase} | {allowed} | {denied} | {refused} |");
        }
    }
    let [closed, open, local] = counts.map(|phases| phases.map(|counts| counts.all()));
    // With its database nothing fails, and without it not before the chunk is spent.
    for [_, denied, refused] in [closed[0], closed[2], open[0], open[1], open[2]] {
        assert_eq!((denied, refused), (0, 0));
    }
    let [allowed, denied, refused] = closed[1];
    assert!(allowed > 0 && denied == 0 && refused > 0);
    assert!(local.iter().all(|[_, _, refused]| *refused == 0));
    assert!(local[1][1] > 0, "a node's share has an end");
    assert!(server.counted("tollgate_ledger_refused_total") >= refused);
    // All that was let through is in the ledger, sooner or later.
    for ((mode, limit), phases) in MODES.iter().zip([closed, open, local]) {
        let allowed: u64 = phases.iter().map(|[allowed, ..]| allowed).sum();
        let look = json!({"orgId": "acme", "scopes": [mode], "cost": 0});
        wait_for(mode, || {
            let used = limit - remaining(&server.check(&look).json(), mode);
            (used == allowed.min(*limit)).then_some(())
        });
    }
}

fn pause(time: Duration) {
    let (_silent, pause) = std::sync::mpsc::channel::<()>();
    let _ = pause.recv_timeout(time);
}
