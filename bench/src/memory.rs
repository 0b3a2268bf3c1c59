//! Resident bytes for each counter, in a process of its own.

use std::process::Command;

use crate::stacks::filled;

const COUNTERS: usize = 1_000_000;

pub(crate) fn run() {
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new(this).arg("memory-child").output().expect("a child");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Fills one store after another, so that what the process itself takes falls out of the difference.
pub(crate) fn child() {
    let before = resident_bytes();
    let engine = filled(COUNTERS);
    let after = resident_bytes();
    assert_eq!(engine.store.usage().held, COUNTERS);
    println!(
        "\nresident bytes for each token-bucket counter at one million: {:.1}",
        (after - before) / COUNTERS as f64
    );
}

pub(crate) fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux process");
    let pages: f64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("resident pages");
    pages * 4096.0
}
