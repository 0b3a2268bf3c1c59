//! Two threads on one org against one thread.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use tollgate::clock;
use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_counters::Commit;

use crate::peers::engine;
use crate::rounds::pin;

const CHECKS: usize = 1_000_000;
const ROUNDS: usize = 11;
const THREE: &str = "
policies:
  - {id: key, scope: key, algorithm: token_bucket, limit: 100000000, window: 1s}
  - {id: app, scope: app, algorithm: token_bucket, limit: 1000000000, window: 1s}
  - {id: org, scope: org, algorithm: token_bucket, limit: 10000000000, window: 1s}
";

pub(crate) fn run() {
    let engine = engine(THREE);
    let mut rates: [Vec<f64>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rates[0].push(rate(&engine, &["acme"]));
        rates[1].push(rate(&engine, &["acme", "acme"]));
        rates[2].push(rate(&engine, &["acme", "globex"]));
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let [mut one, mut two, mut apart] = rates;
    let (one, two, apart) = (median(&mut one), median(&mut two), median(&mut apart));
    println!("\n{:<34} {:>10}", "key + app + org of one org", "million/s");
    println!("{:<34} {:>10.2}", "one thread", one / 1e6);
    println!("{:<34} {:>10.2}", "two threads", two / 1e6);
    println!("{:<34} {:>10.2}", "two threads, an org each", apart / 1e6);
    println!(
        "two threads against one:               {:>6.2} x its throughput",
        two / one
    );
}

/// Decisions a second of a thread for each org given, each thread with a key of its own.
fn rate(engine: &Engine, orgs: &[&str]) -> f64 {
    let barrier = Barrier::new(orgs.len() + 1);
    std::thread::scope(|scope| {
        let running: Vec<_> = orgs
            .iter()
            .enumerate()
            .map(|(number, org)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    pin(number);
                    let key = format!("key-{number}");
                    let snapshot = engine.snapshot();
                    barrier.wait();
                    for _ in 0..CHECKS {
                        let request = Request {
                            org: Some(org),
                            app: Some("web"),
                            key: Some(&key),
                            ..Request::new()
                        };
                        let checked = engine.check(&snapshot, &request, Commit::Charge, clock::now());
                        let _ = black_box(&checked);
                    }
                })
            })
            .collect();
        barrier.wait();
        let started = Instant::now();
        for thread in running {
            thread.join().expect("the thread ran");
        }
        (CHECKS * orgs.len()) as f64 / started.elapsed().as_secs_f64()
    })
}
