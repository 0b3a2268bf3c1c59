//! Many seeds on every core.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Counts, Options, Violation, run};

/// A seed whose run was not as it must be.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The first thing that must not have happened.
    pub violation: Violation,
    /// When the run began, in true nanoseconds.
    pub start: u64,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seed,
            violation,
            start,
        } = self;
        let since = violation.at.saturating_sub(*start) / 1_000;
        let (seconds, micros) = (since / 1_000_000, since % 1_000_000);
        writeln!(f, "seed {seed}, {seconds}.{micros:06} s: {}", violation.what)?;
        write!(
            f,
            "cargo run --release -p tollgate-simulator -- --seed {seed} --trace"
        )
    }
}

/// Draws the first of a range of seeds that nobody has run, from the randomness that the standard library seeds its maps
/// with.
pub fn draw_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // So that a range of them is read and typed easily.
    RandomState::new().hash_one(std::process::id()) % 1_000_000_000_000
}

/// Runs seeds on as many threads as there are cores. `heard` is called after each of them, on the thread that ran it, and
/// ends it all by returning false. Returns the sum of what happened, and the seeds that failed, in order.
pub fn run_all(
    seeds: Range<u64>,
    options: Options,
    heard: &(dyn Fn(Option<&Failure>) -> bool + Sync),
) -> (Counts, Vec<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let stopped = AtomicBool::new(false);
    let all = Mutex::new((Counts::default(), Vec::new()));
    let work = || {
        let mut sum = Counts::default();
        let mut failures = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let mut report = run(seed, options);
            sum.add(&report.counts);
            let failure = (!report.violations.is_empty()).then(|| Failure {
                seed,
                violation: report.violations.swap_remove(0),
                start: report.start,
            });
            if !heard(failure.as_ref()) {
                stopped.store(true, Ordering::Relaxed);
            }
            failures.extend(failure);
        }
        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.0.add(&sum);
        all.1.extend(failures);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (sum, mut failures) = all
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    failures.sort_by_key(|failure: &Failure| failure.seed);
    (sum, failures)
}
