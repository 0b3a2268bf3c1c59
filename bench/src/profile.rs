//! One contender alone, for `perf` and `callgrind`.

use std::hint::black_box;

use tollgate::engine::Checked;
use tollgate_catalog::Request;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use crate::peers::{ONE, THREE, engine};
use crate::rounds::Shuffled;

/// Compiles an org with ten overrides so often, each time as somebody asks for it.
pub(crate) fn compile(count: usize) {
    let snapshot = crate::catalogue::one_org();
    for _ in 0..count {
        let cold = snapshot.cooled();
        let mut stack = cold.blank();
        let request = Request {
            org: Some("org-000000"),
            app: Some("app-3"),
            key: Some("key-1"),
            ..Request::new()
        };
        cold.resolve(
            &request,
            Timestamp::from_nanos(1_700_000_000_000_000_000),
            &mut stack,
        );
        let _ = black_box(&stack);
    }
}

/// Decides so many requests with one level or three, on virtual time.
pub(crate) fn run(levels: &str, count: usize) {
    let engine = engine(if levels == "1" { ONE } else { THREE });
    let keys: Vec<String> = (0..1000).map(|n| format!("key-{n:08}")).collect();
    let mut order = Shuffled::new();
    let snapshot = engine.snapshot();
    for n in 0..count as u64 {
        let request = Request {
            org: Some("acme"),
            app: Some("web"),
            key: Some(&keys[order.below(1000)]),
            ..Request::new()
        };
        let now = Timestamp::from_nanos(1_700_000_000_000_000_000 + n * 100);
        let mut checked = Checked::blank(&snapshot, now);
        let decided = engine.check_into(&snapshot, &request, Commit::Charge, &mut checked);
        let _ = black_box((&decided, &checked));
    }
}
