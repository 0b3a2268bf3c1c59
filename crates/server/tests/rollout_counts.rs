//! However a rollout goes, nobody is let through more often than the wider of the two sets allows.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;

use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_catalog::document::parse_policy_set;
use tollgate_catalog::model::{PolicySet, Rollout, RolloutState, Share};
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::Commit;

const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// All of it happens within one window of an hour.
const CHECKS: u64 = 1_500;
const ORGS: u64 = 12;

/// The same numbers for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn set(algorithm: &str, limit: u64) -> PolicySet {
    let text = format!(
        "policies: [{{id: rate, algorithm: {algorithm}, limit: {limit}, window: 1h}}, {{id: wide, scope: app, limit: 9, window: 1m}}]"
    );
    parse_policy_set(&text).unwrap()
}

fn beside(active: &PolicySet, candidate: &PolicySet, percent: u8) -> PolicySet {
    PolicySet {
        rollout: Some(Rollout {
            share: Share {
                rollout: "trial".to_owned(),
                percent,
            },
            policies: vec![candidate.policies[0].clone()],
            removes: Vec::new(),
            state: RolloutState::Open,
        }),
        ..active.clone()
    }
}

#[test]
fn no_way_of_a_rollout_lets_more_through_than_the_wider_set_allows() {
    // Windows that do not end meanwhile: what is let through can only add up.
    let ways = ["fixed_window, anchor: first", "sliding_window_log"];
    let mut switched = 0;
    for seed in 0..200 {
        let mut draw = Draw(seed);
        let mut way = || ways[usize::try_from(draw.below(2)).unwrap()];
        let (from, to) = (way(), way());
        let (narrow, wide) = (3 + draw.below(30), 3 + draw.below(30));
        let (active, candidate) = (set(from, narrow), set(to, wide));
        let engine = Engine::new(&active, KeySeed(seed, 1), 100_000, false).unwrap();
        let mut admitted: HashMap<u64, u64> = HashMap::new();
        let mut percent = 0;
        for check in 0..CHECKS {
            let now = Timestamp::from_nanos(START + check * SECOND);
            let put = |set: &PolicySet| {
                let next = engine.snapshot_full().with_common(set, now).unwrap();
                engine.install(next);
            };
            match check {
                100 => put(&beside(&active, &candidate, 0)),
                101..1_000 if percent < 100 && draw.below(60) == 0 => {
                    percent = 100.min(percent + 1 + u8::try_from(draw.below(30)).unwrap());
                    put(&beside(&active, &candidate, percent));
                }
                1_000 if draw.below(2) == 0 => put(&candidate),
                1_000 => put(&active),
                _ => {}
            }
            let org = draw.below(ORGS);
            let name = format!("org-{org}");
            let request = Request {
                org: Some(&name),
                ..Request::new()
            };
            let snapshot = engine.snapshot_full();
            let checked = engine.check(&snapshot, &request, Commit::Charge, now).unwrap();
            if checked.decision.allowed {
                *admitted.entry(org).or_default() += 1;
            }
        }
        let most = admitted.values().copied().max().unwrap();
        assert!(
            most <= narrow.max(wide),
            "seed {seed}: {most} let through by {from} of {narrow} and {to} of {wide}"
        );
        assert!(
            admitted.values().all(|count| *count >= narrow.min(wide)),
            "seed {seed}: {admitted:?}"
        );
        switched += u64::from(percent > 50);
    }
    assert!(switched > 100, "most of the rollouts get somewhere");
}
