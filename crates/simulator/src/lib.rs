//! Several nodes and a shared store on virtual time, in all sorts of trouble, and a judge.
//!
//! The nodes and the slots are the real ones of `tollgate-counters`. Everything around them is made up from a
//! seed: clocks, pauses, the network, servers that fail, requests. The same seed is the same run.

mod call;
mod clock;
mod counts;
mod fresh;
mod happen;
mod history;
mod judge;
mod machine;
mod plant;
mod policies;
mod queue;
mod random;
mod request;
mod scenario;
mod store;
mod traffic;
mod world;

pub use counts::Counts;
pub use fresh::{Failure, draw_seed, run_all};
pub use judge::Violation;
pub use plant::Plant;
use world::World;

/// How a run is to be made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// What is wrong.
    pub plant: Option<Plant>,
    /// Every event is printed.
    pub trace: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// What must not have happened, the first first.
    pub violations: Vec<Violation>,
    /// What happened.
    pub counts: Counts,
    /// When it began, in true nanoseconds.
    pub start: u64,
}

/// Runs a seed.
pub fn run(seed: u64, options: Options) -> Report {
    let mut world = World::new(seed, options);
    let (start, calm) = (world.scenario.start, world.scenario.calm);
    world.run();
    let mut violations = judge::judge(&mut world.history, calm);
    violations.sort_by_key(|violation| violation.at);
    Report {
        violations,
        counts: world.tally,
        start,
    }
}
