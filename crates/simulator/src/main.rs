//! `cargo run --release -p tollgate-simulator -- --seeds 100000`

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_simulator::{Failure, Options, Plant, draw_seed, run_all};

/// How often progress is printed where nobody watches a bar.
const PRINTED_EVERY: u64 = 20_000;

/// Runs nodes and a shared store through all sorts of trouble on every core, and judges.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed; one that nobody has run unless it is given
    #[arg(long)]
    from: Option<u64>,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Make this mistake; those in nodes need the feature `plant`
    #[arg(long)]
    plant: Option<Plant>,
    /// Go on after a seed that fails
    #[arg(long)]
    keep_going: bool,
    /// Print every event
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (first, count) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from.unwrap_or_else(draw_seed), arguments.seeds),
    };
    let options = Options {
        trace: arguments.trace,
        plant: arguments.plant,
    };
    println!("{count} seeds from {first}");
    let bar = progress(count);
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let heard = |failure: Option<&Failure>| {
        if let Some(failure) = failure {
            failed.fetch_add(1, Ordering::Relaxed);
            bar.suspend(|| eprintln!("{failure}"));
        }
        let failed = failed.load(Ordering::Relaxed);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        bar.inc(1);
        bar.set_message(format!("{failed} failed"));
        if bar.is_hidden() && done.is_multiple_of(PRINTED_EVERY) {
            eprintln!("{done} of {count} seeds, {failed} failed");
        }
        failed == 0 || arguments.keep_going
    };
    let (sum, failures) = run_all(first..first.saturating_add(count), options, &heard);
    bar.finish_and_clear();
    let done = done.into_inner();
    println!("{done} seeds, {} failed: {sum}", failures.len());
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A bar, for whoever watches.
fn progress(count: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && count > 1 {
        ProgressDrawTarget::stderr_with_hz(4)
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} seeds, {msg}, {eta} left");
    ProgressBar::with_draw_target(Some(count), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
