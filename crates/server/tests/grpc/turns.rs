//! Other people's turn over gRPC: whoever sends batches holds up nobody else for long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_proto::v1::CheckLimitRequest;

use crate::asker::Asker;
use crate::common::{Server, file_of, hourly};

/// Checks of which the slowest of a hundred is looked at.
const CHECKS: usize = 400;
/// How much longer a check may take beside a flood.
const MOST: f64 = 5.0;
/// A machine that others use, too, is given some chances to show what the server does.
const ROUNDS: usize = 6;

fn check(org: &str) -> CheckLimitRequest {
    CheckLimitRequest {
        org_id: Some(org.to_owned()),
        ..CheckLimitRequest::default()
    }
}

/// How long nearly all checks of an org take, one after the other.
fn p99(asker: &Asker) -> Duration {
    let mut times: Vec<Duration> = (0..CHECKS)
        .map(|_| {
            let begun = Instant::now();
            asker.check(check("quiet")).unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[CHECKS * 99 / 100]
}

#[test]
fn batches_hold_up_nobody_else() {
    let policies = file_of(&[hourly("org", "org", 100_000_000, "")]);
    let server = Server::start(&policies, &["--threads", "1"]);
    let asker = Asker::of(&server);
    let loud: Vec<Asker> = (0..6).map(|_| Asker::of(&server)).collect();
    p99(&asker);
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let alone = p99(&asker);
        let end = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            for loud in &loud {
                let end = &end;
                scope.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        let answer = loud.check_all(vec![check("loud"); 1_000]).unwrap();
                        assert_eq!(answer.decisions.len(), 1_000);
                    }
                });
            }
            let beside = p99(&asker);
            end.store(true, Ordering::Relaxed);
            beside
        });
        seen.push((alone, beside));
        if beside.as_secs_f64() <= MOST * alone.as_secs_f64() {
            return;
        }
    }
    panic!("alone and beside the flood: {seen:?}");
}
