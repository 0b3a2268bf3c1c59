//! What the core promises, each promise tried on ten thousand random cases or more.
//!
//! `limits` and `steps` make the cases, `subject` runs the core as a store would, `walk` leads it through a
//! case; every other module is named for what it proves. A failing case is printed in its smallest form and
//! its seed kept in `crates/core/proptest-regressions`, to be tried first ever after. `PROPTEST_CASES`
//! raises the number of cases.

mod clock;
mod denials;
mod equals_oracle;
mod forgetting;
mod intervals;
mod limits;
mod logs;
mod new_limits;
mod stacks;
mod steps;
mod subject;
mod throttle;
mod waits;
mod walk;

use proptest::test_runner::{Config, FileFailurePersistence};

/// The configuration of every property, which keeps its failures under the given name.
#[macro_export]
macro_rules! thorough {
    ($name:literal) => {
        $crate::thorough(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/",
            $name,
            ".txt"
        ))
    };
}

/// The path is given in full because the one that proptest would derive from a source file is relative to
/// the workspace, while tests run in the package.
fn thorough(failures: &'static str) -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(10_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(failures))),
        ..default
    }
}
