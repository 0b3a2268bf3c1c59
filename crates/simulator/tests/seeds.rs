//! Thousands of runs in which nothing may go wrong, and the same run twice.
#![allow(missing_docs)]

use tollgate_simulator::{Counts, Options, run};

/// Runs seeds and fails with the command that shows the first bad one.
fn all_are_well(seeds: std::ops::Range<u64>) -> Counts {
    let mut sum = Counts::default();
    for seed in seeds {
        let report = run(seed, Options::default());
        if let Some(violation) = report.violations.first() {
            panic!(
                "seed {seed}: {}\ncargo run -p tollgate-simulator -- --seed {seed} --trace",
                violation.what
            );
        }
        sum.add(&report.counts);
    }
    sum
}

#[test]
fn nothing_goes_wrong_in_two_thousand_runs() {
    let sum = all_are_well(0..2_000);
    // The runs are about something: much is decided from leases, and much is denied.
    assert!(sum.local * 10 > sum.allowed, "{sum}");
    assert!(sum.denied > sum.allowed / 2, "{sum}");
    assert!(sum.allowed > 100_000, "{sum}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..50 {
        let first = run(seed, Options::default());
        let second = run(seed, Options::default());
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}
