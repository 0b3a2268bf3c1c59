//! Nodes, one ledger and all sorts of trouble on virtual time: engines decide, accounts are kept, looked at and forgotten as
//! in a server, and only the database and the clock are made up. A judge counts by itself.
//!
//! Each run draws fresh seeds and prints the first. `TOLLGATE_LEDGER_SEED=N` tries one seed, `TOLLGATE_LEDGER_SEEDS=N` so
//! many: `TOLLGATE_LEDGER_SEEDS=100000 cargo nextest run -p tollgate --lib ledger::model --no-capture`.

mod database;
mod judge;
mod node;
mod world;

use super::plant::{Bug, plant};
use world::World;

/// Fresh seeds in each run.
const RUNS: u64 = 400;
/// Seeds that once failed, each with a mistake that is mended.
const FAILED: [u64; 3] = [154_613_276_080_084, 70_740_676_337_833, 187_586_904_418_255];
/// A mistake is found within so many seeds.
const SOON: u64 = 400;

/// The same numbers for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn place(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }
}

/// What went wrong first in a run, if something did.
fn run(seed: u64) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    World::new(seed).run()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn nothing_is_over_nothing_is_missing_and_every_period_begins_anew() {
    let one = number("TOLLGATE_LEDGER_SEED");
    let first = one.unwrap_or_else(|| getrandom::u64().unwrap() >> 16);
    let count = number("TOLLGATE_LEDGER_SEEDS").unwrap_or(RUNS);
    let count = if one.is_some() { 1 } else { count };
    println!("{count} seeds from {first}");
    let seeds = FAILED.into_iter().chain(first..first + count);
    for (number, seed) in seeds.enumerate() {
        if number > 0 && number.is_multiple_of(10_000) {
            println!("{number} seeds are well");
        }
        if let Some(problem) = run(seed) {
            panic!("TOLLGATE_LEDGER_SEED={seed}: {problem}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..5 {
        let runs = [(); 2].map(|()| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _guard = runtime.enter();
            let mut world = World::new(seed);
            let problem = world.run();
            (problem, world.allowed())
        });
        assert_eq!(runs[0], runs[1], "seed {seed}");
        assert!(runs[0].1 > 100, "the run is about something");
    }
}

/// Fails unless a seed goes wrong with the mistake.
fn is_found(bug: Bug) {
    plant(Some(bug));
    let found = (0..SOON).find_map(|seed| Some((seed, run(seed)?)));
    plant(None);
    let Some((seed, problem)) = found else {
        panic!("{bug:?} was not found within {SOON} seeds");
    };
    println!("{bug:?} was found by seed {seed}: {problem}");
    assert!(run(seed).is_none(), "seed {seed} is well without it");
}

#[test]
fn an_old_cell_that_is_owed_is_found() {
    is_found(Bug::OldCellOwed);
}

#[test]
fn a_fallback_that_nobody_is_told_of_is_found() {
    is_found(Bug::FallbackUntold);
}

#[test]
fn quiet_nodes_that_are_not_counted_are_found() {
    is_found(Bug::QuietNodesGone);
}

#[test]
fn terms_that_stay_are_found() {
    is_found(Bug::TermsStay);
}

#[test]
fn a_stop_that_forgets_what_was_let_through_is_found() {
    is_found(Bug::StopForgets);
}
