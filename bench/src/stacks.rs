//! Decisions on a few hot keys in a small store and in one of ten million counters.

use std::hint::black_box;

use tollgate::clock;
use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_counters::Commit;

use crate::peers::engine;
use crate::rounds::{measure, pin};

/// So few that their cells stay in the cache in both stores.
const HOT: usize = 64;
/// Full again only after a day, so that nothing is forgotten meanwhile.
const SLOW: &str = "policies: [{id: key, scope: key, algorithm: token_bucket, limit: 1000000, window: 1d}]";

pub(crate) fn run() {
    pin(0);
    let (small, large) = (filled(1_000), filled(10_000_000));
    let hot: Vec<String> = (0..HOT).map(|n| format!("{:010}", n * 7)).collect();
    let check = |engine: &Engine, n: usize| {
        let snapshot = engine.snapshot();
        for turn in 0..n {
            let request = Request {
                org: Some("org-7"),
                key: Some(&hot[turn % HOT]),
                ..Request::new()
            };
            let checked = engine.check(&snapshot, &request, Commit::Charge, clock::now());
            let _ = black_box(&checked);
        }
    };
    let results = measure(
        100_000,
        vec![
            ("1,000 counters held", Box::new(|n| check(&small, n))),
            ("10,000,000 counters held", Box::new(|n| check(&large, n))),
        ],
    );
    println!("\n{:<34} {:>10}", "one token bucket, hot keys", "ns");
    for result in &results {
        println!("{:<34} {:>10.1}", result.name, result.nanos);
    }
    println!(
        "ten million against a thousand:        {:>6.2} x its time",
        results[1].nanos / results[0].nanos
    );
}

/// A store of so many counters, of a thousand orgs.
pub(crate) fn filled(counters: usize) -> Engine {
    let engine = engine(SLOW);
    let now = clock::now();
    let snapshot = engine.snapshot();
    let mut key = String::new();
    for n in 0..counters {
        use std::fmt::Write;

        key.clear();
        let _ = write!(key, "{n:010}");
        let org = format!("org-{}", if counters < 10_000 { 7 } else { n % 1000 });
        let request = Request {
            org: Some(&org),
            key: Some(&key),
            ..Request::new()
        };
        engine
            .check(&snapshot, &request, Commit::Charge, now)
            .expect("room");
    }
    drop(snapshot);
    engine
}
