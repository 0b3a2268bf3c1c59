//! `cargo run -p tollgate-simulator -- --seeds 2000`

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tollgate_simulator::{Counts, Options, Plant, run};

/// Runs nodes and a shared store through all sorts of trouble, and judges.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this one.
    #[arg(long)]
    seed: Option<u64>,
    /// Make this mistake; those in nodes need the feature `plant`.
    #[arg(long)]
    plant: Option<Plant>,
    /// Go on after a seed that fails.
    #[arg(long)]
    keep_going: bool,
    /// Print every event.
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (first, count) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from, arguments.seeds),
    };
    let options = Options {
        trace: arguments.trace,
        plant: arguments.plant,
    };
    let shows_progress = std::io::stderr().is_terminal();
    let mut sum = Counts::default();
    let mut failed = 0;
    for seed in first..first + count {
        let report = run(seed, options);
        sum.add(&report.counts);
        if let Some(violation) = report.violations.first() {
            let since = violation.at.saturating_sub(report.start) / 1_000;
            eprintln!(
                "\nseed {seed}, {}.{:06} s: {}",
                since / 1_000_000,
                since % 1_000_000,
                violation.what
            );
            eprintln!("cargo run -p tollgate-simulator -- --seed {seed} --trace");
            failed += 1;
            if !arguments.keep_going {
                return ExitCode::FAILURE;
            }
        }
        if shows_progress && seed % 50 == 0 {
            eprint!("\r{} of {count} seeds", seed - first);
            let _ = std::io::stderr().flush();
        }
    }
    println!("{count} seeds, {failed} failed: {sum}");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
