//! Thousands of runs in which nothing may go wrong: seeds that nobody has run, and those that once failed.
#![allow(missing_docs)]

use std::ops::Range;

use tollgate_simulator::{Counts, Options, draw_seed, run, run_all};

/// Seeds that are drawn afresh each time.
const FRESH: u64 = 4_000;

/// Runs seeds and fails with the command that shows the first bad one.
fn all_are_well(seeds: Range<u64>) -> Counts {
    let (sum, failures) = run_all(seeds, Options::default(), &|failure| failure.is_none());
    if let Some(failure) = failures.first() {
        panic!("add this seed to tests/seeds.txt, and see what it shows:\n{failure}");
    }
    sum
}

/// Seeds that once failed.
fn kept() -> impl Iterator<Item = u64> {
    let lines = include_str!("seeds.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.parse().unwrap_or_else(|_| panic!("{line} is no seed")))
}

#[test]
fn nothing_goes_wrong_in_thousands_of_fresh_runs() {
    let first = draw_seed();
    println!("{FRESH} seeds from {first}");
    let sum = all_are_well(first..first + FRESH);
    println!("{sum}");
    // The runs are about something: much is decided from leases, and much is denied.
    assert!(sum.local * 10 > sum.allowed, "{sum}");
    assert!(sum.denied > sum.allowed / 2, "{sum}");
    assert!(sum.allowed > 200_000, "{sum}");
}

#[test]
fn nothing_goes_wrong_any_more_in_runs_that_once_failed() {
    for seed in kept() {
        all_are_well(seed..seed + 1);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..50 {
        let first = run(seed, Options::default());
        let second = run(seed, Options::default());
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}
