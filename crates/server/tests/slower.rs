//! Buckets whose limit is lowered while they owe something: what was used is not forgotten any earlier for it.
//!
//! Judged from outside, by what a bucket may let through whose rate changes at the very instant: never more than its
//! burst beyond what has flowed back since, by whatever rate was in force.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/draw.rs"]
mod draw;

use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord};
use tollgate_catalog::parse_policy_set;
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::Commit;

use draw::Draw;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const BURST: u64 = 100;
/// In which a limit flows back.
const WINDOW: u64 = 10 * SECOND;

/// What a bucket owes, in parts of a token, and since when by which limit it flows back.
struct Judge {
    owed: u128,
    at: u64,
    limit: u64,
}

impl Judge {
    fn come_to(&mut self, at: u64) {
        let back = u128::from(at - self.at) * u128::from(self.limit);
        self.owed = self.owed.saturating_sub(back);
        self.at = at;
    }

    fn charge(&mut self, cost: u64) {
        self.owed += u128::from(cost) * u128::from(WINDOW);
        assert!(
            self.owed <= u128::from(BURST * WINDOW),
            "over by {} tokens",
            (self.owed - u128::from(BURST * WINDOW)).div_ceil(WINDOW.into())
        );
    }
}

struct Server(Engine);

impl Server {
    fn policies(limit: u64) -> String {
        format!("policies: [{{id: p, scope: org, limit: {limit}, burst: {BURST}, window: 10s}}]")
    }

    fn new(limit: u64) -> Self {
        let set = parse_policy_set(&Self::policies(limit)).unwrap();
        Self(Engine::new(&set, KeySeed::new(5, 6), 1_000_000, false).unwrap())
    }

    fn lower(&self, limit: u64, now: Timestamp) {
        let set = parse_policy_set(&Self::policies(limit)).unwrap();
        let next = self.0.snapshot_full().with_common(&set, now);
        self.0.install(next.unwrap());
    }

    /// Puts the overrides of the org in place of those it has.
    fn overrides(&self, fields: &[String], now: Timestamp) {
        let json = |fields: &String| format!(r#"{{"orgId":"acme","policyId":"p",{fields}}}"#);
        let record = OrgRecord {
            overrides: fields
                .iter()
                .map(|fields| KeptOverride::Json(json(fields).into()))
                .collect(),
            ..OrgRecord::plain(Org::named("acme"))
        };
        let changes = vec![("acme".to_owned(), Some(record))];
        let next = self.0.snapshot_full().with_orgs(changes, now);
        self.0.install(next.unwrap());
    }

    fn asks(&self, cost: u64, now: Timestamp) -> bool {
        let request = Request {
            org: Some("acme"),
            cost,
            ..Request::new()
        };
        let snapshot = self.0.snapshot_full();
        let checked = self.0.check(&snapshot, &request, Commit::Charge, now);
        checked.unwrap().decision.allowed
    }

    fn sweep(&self, now: Timestamp) {
        for _ in 0..self.0.store.shard_count() {
            self.0.store.sweep(usize::MAX, now);
        }
    }
}

/// Asks now and then, and has whatever may be forgotten forgotten in between.
fn play(server: &Server, judge: &mut Judge, draw: &mut Draw, until: u64) {
    while judge.at < until {
        let pause = [SECOND, 9 * SECOND, 40 * SECOND, 400 * SECOND][usize::try_from(draw.below(4)).unwrap()];
        judge.come_to((judge.at + draw.below(pause)).min(until));
        let now = Timestamp::from_nanos(judge.at);
        server.sweep(now);
        let cost = [1, BURST / 2, BURST][usize::try_from(draw.below(3)).unwrap()];
        if server.asks(cost, now) {
            judge.charge(cost);
        }
    }
}

/// A full bucket's worth at once, so that there is something to forget.
fn use_up(server: &Server, judge: &mut Judge) {
    while server.asks(1, Timestamp::from_nanos(judge.at)) {
        judge.charge(1);
    }
}

#[test]
fn a_policy_that_is_lowered_again_and_again_lets_nothing_more_through() {
    for seed in 0..300 {
        let (mut draw, mut limit) = (Draw(seed), 1_000);
        let (server, mut judge) = (
            Server::new(limit),
            Judge {
                owed: 0,
                at: START,
                limit,
            },
        );
        for _ in 0..4 {
            use_up(&server, &mut judge);
            let pause = judge.at + draw.below(2 * SECOND);
            judge.come_to(pause);
            limit = (limit / (1 + draw.below(30))).max(1);
            server.lower(limit, Timestamp::from_nanos(judge.at));
            judge.limit = limit;
            let until = judge.at + draw.below(1_500 * SECOND);
            play(&server, &mut judge, &mut draw, until);
        }
    }
}

#[test]
fn overrides_that_come_go_or_end_by_themselves_let_nothing_more_through() {
    for seed in 0..300 {
        let mut draw = Draw(seed);
        let (server, mut judge) = (
            Server::new(40),
            Judge {
                owed: 0,
                at: START,
                limit: 40,
            },
        );
        // A faster one that ends, by hand or by itself, in favour of the policy or of a slower one.
        let (ends, slower) = (START + 20 * SECOND, draw.below(2) == 0);
        let by_itself = draw.below(2) == 0;
        let then = if slower { 2 } else { 40 };
        let end = jiff::Timestamp::from_nanosecond(i128::from(ends)).unwrap();
        let faster = if by_itself {
            format!(r#""limit":4000,"expiresAt":"{end}""#)
        } else {
            r#""limit":4000"#.to_owned()
        };
        let mut all = vec![faster];
        if slower {
            all.insert(0, r#""limit":2"#.to_owned());
        }
        server.overrides(&all, Timestamp::from_nanos(judge.at));
        judge.limit = 4_000;
        play(&server, &mut judge, &mut draw, ends - SECOND / 20);
        use_up(&server, &mut judge);
        judge.come_to(ends);
        if !by_itself {
            all.pop();
            server.overrides(&all, Timestamp::from_nanos(ends));
        }
        judge.limit = then;
        play(&server, &mut judge, &mut draw, ends + 2_000 * SECOND);
    }
}
