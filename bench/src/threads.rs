//! Two threads on one org against one thread: when they do nothing but decide, and when they also write the
//! answer, as a server's do.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use tollgate::answer::{HeaderStyles, write_decision, write_headers};
use tollgate::clock;
use tollgate::engine::{Checked, Engine};
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
    println!("\n{:<34} {:>10}", "key + app + org of one org", "million/s");
    for (what, answer) in [("decided only", false), ("decided and answered", true)] {
        let engine = engine(THREE);
        let mut rates: [Vec<f64>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (rates, orgs) in rates
                .iter_mut()
                .zip([&["acme"][..], &["acme", "acme"], &["acme", "globex"]])
            {
                rates.push(rate(&engine, orgs, answer));
            }
        }
        let [one, two, apart] = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        for (threads, rate) in [
            ("one thread", one),
            ("two threads", two),
            ("two threads, an org each", apart),
        ] {
            println!("{:<34} {:>10.2}", format!("{what}, {threads}"), rate / 1e6);
        }
        println!(
            "two threads against one, {what}: {:>6.2} x its throughput",
            two / one
        );
        // What a second busy core takes from the first one is not the lock's doing.
        println!(
            "two threads against one beside another busy one, {what}: {:>6.2} x its throughput",
            two / (apart / 2.0)
        );
    }
}

/// Decisions a second of a thread for each org given, each thread with a key of its own.
fn rate(engine: &Engine, orgs: &[&str], answer: bool) -> f64 {
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
                    let (mut head, mut body) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
                    barrier.wait();
                    for _ in 0..CHECKS {
                        let request = Request {
                            org: Some(org),
                            app: Some("web"),
                            key: Some(&key),
                            ..Request::new()
                        };
                        let mut checked = Checked::blank(&snapshot, clock::now());
                        let decided = engine.check_into(&snapshot, &request, Commit::Charge, &mut checked);
                        assert!(decided.is_ok());
                        if answer {
                            head.clear();
                            body.clear();
                            write_headers(&checked, HeaderStyles::default(), &mut |name, value| {
                                head.extend_from_slice(name.as_bytes());
                                head.extend_from_slice(value);
                            });
                            write_decision(&checked, &mut body);
                            let _ = black_box((&head, &body));
                        }
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
