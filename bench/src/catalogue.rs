//! A large catalogue: 100,000 orgs with ten overrides each, against ten.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use tollgate::catalogue::read_document;
use tollgate_catalog::Request;
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord, PolicySet};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{KeySeed, Timestamp};

use crate::memory::resident_bytes;
use crate::rounds::{Shuffled, measure, pin};

const ORGS: usize = 100_000;
const FEW: usize = 10;
const CHANGES: usize = 200;
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);
const POLICIES: &str = "
policies:
  - {id: key, scope: key, algorithm: token_bucket, limit: 1000000, window: 1s}
  - {id: app, scope: app, algorithm: token_bucket, limit: 100000000, window: 1s}
  - {id: org, scope: org, algorithm: token_bucket, limit: 1000000000, window: 1s}
";

pub(crate) fn run() {
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new(this)
        .arg("catalogue-child")
        .output()
        .expect("a child");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
}

/// In a process of its own, so that what is resident is the catalogue's.
pub(crate) fn child() {
    pin(0);
    let set = parse_policy_set(POLICIES).expect("the benchmark's policies are valid");
    let few = snapshot(&set, FEW);
    let before = resident_bytes();
    let started = Instant::now();
    let many = snapshot(&set, ORGS);
    let loaded = started.elapsed();
    let each = (resident_bytes() - before) / ORGS as f64;
    println!("\n{ORGS} orgs with ten overrides each");
    println!(
        "{:<44} {:>10.2}",
        "read and put in a table, s",
        loaded.as_secs_f64()
    );
    println!("{:<44} {each:>10.0}", "resident bytes for each org, idle");
    let names: Vec<String> = (0..ORGS).map(name).collect();
    let mut orders = [Shuffled::new(), Shuffled::new(), Shuffled::new()];
    let [of_few, of_hot, of_all] = &mut orders;
    let resolve = |snapshot: &Snapshot, org: &str| {
        let request = Request {
            org: Some(org),
            app: Some("app-3"),
            key: Some("key-1"),
            ..Request::new()
        };
        let mut stack = snapshot.blank();
        snapshot.resolve(&request, NOW, &mut stack);
        assert_eq!(black_box(&stack).levels.len(), 3);
    };
    // As in a node, where those who are in use are soon found at once.
    for org in &names {
        resolve(&many, org);
        resolve(&few, org);
    }
    let (few, many) = (few.settled(), many.settled());
    let results = measure(
        100_000,
        vec![
            (
                "a request resolved, 100 overrides",
                Box::new(|n| (0..n).for_each(|_| resolve(&few, &names[of_few.below(FEW)]))),
            ),
            (
                "1,000,000 overrides, the same ten orgs",
                Box::new(|n| (0..n).for_each(|_| resolve(&many, &names[of_hot.below(FEW)]))),
            ),
            (
                "1,000,000 overrides, orgs at random",
                Box::new(|n| (0..n).for_each(|_| resolve(&many, &names[of_all.below(ORGS)]))),
            ),
        ],
    );
    for result in &results {
        println!("{:<44} {:>10.1} ns", result.name, result.nanos);
    }
    println!(
        "a million overrides against a hundred:       {:>6.2} x its time; at random {:.2} x",
        results[1].nanos / results[0].nanos,
        results[2].nanos / results[0].nanos
    );
    let each = (resident_bytes() - before) / ORGS as f64;
    println!("{:<44} {each:>10.0}", "resident bytes for each org, all compiled");
    timed("one org changed", || {
        let changed = many.with_orgs(vec![(name(77), Some(record(77)))], NOW);
        let _ = black_box(changed.expect("it fits"));
    });
    timed("a policy changed", || {
        let _ = black_box(many.with_common(&set, NOW).expect("it fits"));
    });
}

fn timed(what: &str, run: impl Fn()) {
    let mut times: Vec<f64> = (0..CHANGES)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{what:<44} {:>10.2} ms, p99 {:.2} ms",
        times[CHANGES / 2],
        times[CHANGES * 99 / 100]
    );
}

/// One org, idle.
pub(crate) fn one_org() -> Snapshot {
    snapshot(
        &parse_policy_set(POLICIES).expect("the benchmark's policies are valid"),
        1,
    )
}

fn snapshot(set: &PolicySet, orgs: usize) -> Snapshot {
    let empty = Snapshot::compile(set, KeySeed::new(3, 4), None).expect("the policies compile");
    empty.with_idle_orgs((0..orgs).map(record).collect())
}

fn name(number: usize) -> String {
    format!("org-{number:06}")
}

/// An org as the database holds it.
fn record(number: usize) -> OrgRecord {
    let org: Org = read_document(&json!({"orgId": name(number)})).expect("an org");
    let overrides = (0..10).map(|app| {
        let body = json!({"orgId": name(number), "appId": format!("app-{app}"), "policyId": "app", "limit": 1000 + app, "reason": "agreed by contract"});
        KeptOverride::Json(body.to_string().into())
    });
    OrgRecord {
        overrides: overrides.collect(),
        ..OrgRecord::plain(org)
    }
}
