//! Keys that are used under several apps, where an app has a bucket of other numbers in place of the one by key.
//!
//! What is let through is judged from outside: by what each app may have of a key, and by one bucket whose numbers
//! change where an override comes and goes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/draw.rs"]
mod draw;

use std::collections::HashMap;

use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord, Reset, Who};
use tollgate_catalog::parse_policy_set;
use tollgate_core::{Algorithm, BillingAnchor, Calendar, Cell, KeySeed, Retry, Rule, Timestamp};
use tollgate_counters::Commit;

use draw::Draw;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600;
/// A midnight.
const START: u64 = 1_699_920_000;
/// A bucket that refills so slowly that a test is over before.
const SLOW: &str = "policies: [{id: key, scope: key, limit: 10, window: 30d}]";

fn seconds(at: u64) -> Timestamp {
    Timestamp::from_nanos(at * SECOND)
}

/// A server whose org `acme` has overrides that come and go.
struct Server(Engine);

impl Server {
    fn new(policies: &str) -> Self {
        let set = parse_policy_set(policies).unwrap();
        Self(Engine::new(&set, KeySeed::new(3, 4), 1_000_000, false).unwrap())
    }

    fn put(&self, overrides: &[String], resets: Vec<Reset>, now: Timestamp) {
        let record = OrgRecord {
            overrides: overrides
                .iter()
                .map(|json| KeptOverride::Json(json.as_str().into()))
                .collect(),
            resets,
            ..OrgRecord::plain(Org::named("acme"))
        };
        let changes = vec![("acme".to_owned(), Some(record))];
        self.0
            .install(self.0.snapshot_full().with_orgs(changes, now).unwrap());
    }

    fn asks(&self, app: &str, key: &str, cost: u64, now: Timestamp) -> bool {
        self.waits(app, key, cost, now).is_none()
    }

    /// How long a request that is not let through is told to wait.
    fn waits(&self, app: &str, key: &str, cost: u64, now: Timestamp) -> Option<Retry> {
        let request = Request {
            org: Some("acme"),
            app: Some(app),
            key: Some(key),
            cost,
            ..Request::new()
        };
        let snapshot = self.0.snapshot_full();
        let checked = self.0.check(&snapshot, &request, Commit::Charge, now).unwrap();
        assert_eq!(checked.stack.limits.len(), 1);
        assert_eq!(&*checked.stack.limits[0].id, "key");
        (!checked.decision.allowed).then_some(checked.decision.retry)
    }

    /// How many are let through, one after the other.
    fn let_through(&self, app: &str, now: Timestamp) -> u64 {
        (0..100).take_while(|_| self.asks(app, "k", 1, now)).count() as u64
    }
}

/// An override for the app `web`.
fn of_web(fields: &str) -> String {
    format!(r#"{{"orgId":"acme","appId":"web","policyId":"key",{fields}}}"#)
}

/// A bucket beside the one that decides.
struct Bucket {
    rule: Rule,
    cell: Cell,
}

impl Bucket {
    fn of(rule: Rule) -> Self {
        let cell = Cell::default();
        Self { rule, cell }
    }

    /// Whether there is room for a request, which is charged if there is.
    fn lets_through(&mut self, cost: u64, now: Timestamp) -> bool {
        let zone = jiff::tz::TimeZone::UTC;
        let anchor = BillingAnchor::default();
        let calendar = Calendar {
            zone: &zone,
            anchor: &anchor,
        };
        let (cell, fits) = self.rule.look(self.cell, &calendar, cost, now, false);
        if fits {
            self.cell = self.rule.charge(cell, cost, now);
        }
        fits
    }
}

fn bucket(limit: u64, burst: u64) -> Rule {
    Rule::new(Algorithm::TokenBucket, limit, Some(burst), SECOND)
}

#[test]
fn no_app_has_more_of_a_key_than_its_own_bucket_would_let_through() {
    for seed in 0..60 {
        let mut draw = Draw(seed);
        let mut numbers = || (1 + draw.below(9), 1 + draw.below(30));
        let [base, web, ios] = [numbers(), numbers(), numbers()];
        let policies = format!(
            "policies: [{{id: key, scope: key, limit: {}, burst: {}, window: 1s}}]\noverrides:\n  \
             - {{orgId: acme, appId: web, policyId: key, limit: {}, burst: {}}}\n  \
             - {{orgId: acme, appId: ios, policyId: key, limit: {}, burst: {}}}\n",
            base.0, base.1, web.0, web.1, ios.0, ios.1
        );
        let server = Server::new(&policies);
        let mut judges: HashMap<(&str, &str), Bucket> = HashMap::new();
        let (mut at, mut refused) = (START * SECOND, 0);
        for _ in 0..3_000 {
            at += draw.below(SECOND / 10);
            let (app, (limit, burst)) =
                [("web", web), ("ios", ios), ("cli", base)][usize::try_from(draw.below(3)).unwrap()];
            let key = ["k", "j"][usize::try_from(draw.below(2)).unwrap()];
            let (cost, now) = (1 + draw.below(4), Timestamp::from_nanos(at));
            if !server.asks(app, key, cost, now) {
                refused += 1;
                continue;
            }
            let judge = judges
                .entry((app, key))
                .or_insert_with(|| Bucket::of(bucket(limit, burst)));
            assert!(
                judge.lets_through(cost, now),
                "seed {seed}: {app} had too much of {key}"
            );
        }
        assert!(refused > 100, "seed {seed}: limits are reached: {refused}");
    }
}

/// As long as a key is used under one app, it is as if it were one bucket that has another size for a while.
#[test]
fn an_override_that_comes_and_goes_lets_no_more_through_than_one_bucket_of_changing_size() {
    for seed in 0..200 {
        let mut draw = Draw(seed);
        let server = Server::new("policies: [{id: key, scope: key, limit: 2, burst: 20, window: 1s}]");
        let base = bucket(2, 20);
        let mut judge = Bucket::of(base.clone());
        let (mut at, mut refused) = (START * SECOND, 0);
        let mut ends = None;
        for _ in 0..1_500 {
            at += draw.below(SECOND);
            let now = Timestamp::from_nanos(at);
            if ends.is_some_and(|ends| ends <= at) {
                judge.rule = base.clone();
                ends = None;
            }
            match draw.below(40) {
                0 => {
                    server.put(&[], Vec::new(), now);
                    judge.rule = base.clone();
                    ends = None;
                }
                1 | 2 => {
                    let burst = 1 + draw.below(40);
                    let end = at / SECOND + 1 + draw.below(30);
                    let instant = jiff::Timestamp::from_second(i64::try_from(end).unwrap()).unwrap();
                    let fields = format!(r#""burst":{burst},"expiresAt":"{instant}""#);
                    server.put(&[of_web(&fields)], Vec::new(), now);
                    judge.rule = bucket(2, burst);
                    ends = Some(end * SECOND);
                }
                _ => {}
            }
            let cost = 1 + draw.below(8);
            if server.asks("web", "k", cost, now) {
                let passed = (at - START * SECOND) / 1_000_000;
                assert!(judge.lets_through(cost, now), "seed {seed}, after {passed} ms");
            } else {
                refused += 1;
            }
        }
        assert!(refused > 200, "seed {seed}: limits are reached: {refused}");
    }
}

#[test]
fn other_numbers_keep_the_count_of_the_key_there_and_back() {
    let server = Server::new(SLOW);
    let at = |hour: u64| seconds(START + hour * HOUR);
    assert_eq!(server.let_through("web", at(0)), 10);
    server.put(&[of_web(r#""limit":25"#)], Vec::new(), at(1));
    assert_eq!(server.let_through("web", at(1)), 15, "what it was raised by");
    server.put(&[], Vec::new(), at(2));
    assert_eq!(server.let_through("web", at(2)), 0);
    server.put(&[of_web(r#""limit":25"#)], Vec::new(), at(3));
    assert_eq!(server.let_through("web", at(3)), 0, "it was used up before");
}

/// Whoever comes first after it has ended goes on with what was used.
#[test]
fn what_an_app_used_of_a_key_is_used_for_all_apps_once_its_override_has_ended() {
    let at = |hour: u64| seconds(START + hour * HOUR);
    let end = jiff::Timestamp::from_second(i64::try_from(START + 2 * HOUR).unwrap()).unwrap();
    for by_itself in [true, false] {
        let server = Server::new(SLOW);
        let ends = if by_itself {
            format!(r#","expiresAt":"{end}""#)
        } else {
            String::new()
        };
        server.put(&[of_web(&format!(r#""limit":9{ends}"#))], Vec::new(), at(0));
        assert!(server.asks("web", "k", 9, at(1)));
        if !by_itself {
            server.put(&[], Vec::new(), at(2));
        }
        assert!(!server.asks("ios", "k", 2, at(3)), "1 of 10 is left");
        assert!(server.asks("ios", "k", 1, at(3)));
        assert!(!server.asks("web", "k", 1, at(3)));
        assert_eq!(server.let_through("ios", at(3)), 0);
        assert!(
            server.asks("ios", "j", 9, at(3)),
            "another key has a count of its own"
        );
    }
}

#[test]
fn an_override_that_ends_by_itself_leaves_what_was_used_to_the_policy() {
    let server = Server::new(SLOW);
    let at = |hour: u64| seconds(START + hour * HOUR);
    let end = jiff::Timestamp::from_second(i64::try_from(START + 2 * HOUR).unwrap()).unwrap();
    for (seen, fields) in [
        ("a bucket", format!(r#""limit":25,"expiresAt":"{end}""#)),
        (
            "another way of counting",
            format!(r#""limit":25,"algorithm":"fixed_window","expiresAt":"{end}""#),
        ),
    ] {
        server.put(&[of_web(&fields)], vec![emptied(at(0))], at(0));
        assert_eq!(server.let_through("web", at(1)), 25, "{seen}");
        assert_eq!(server.let_through("web", at(2)), 0, "{seen}");
    }
}

#[test]
fn what_it_leaves_tells_an_exact_wait() {
    let at = |millis: u64| Timestamp::from_nanos((START * 1_000 + millis) * 1_000_000);
    let end = jiff::Timestamp::from_second(i64::try_from(START + 1).unwrap()).unwrap();
    for asked in [1_000, 2_500, 6_001, 9_999] {
        let server = Server::new("policies: [{id: key, scope: key, limit: 10, window: 100s}]");
        server.put(
            &[of_web(&format!(r#""limit":12,"expiresAt":"{end}""#))],
            Vec::new(),
            at(0),
        );
        assert!(server.asks("web", "k", 12, at(0)));
        // A bucket of ten is full, and so one is there ten seconds after the last was taken.
        let Some(Retry::After(wait)) = server.waits("web", "k", 1, at(asked)) else {
            panic!("after {asked} ms there is none");
        };
        assert_eq!(wait, u128::from(10_000 - asked) * 1_000_000);
        assert!(!server.asks("ios", "k", 1, at(9_999)));
        assert!(server.asks("ios", "k", 1, at(10_000)));
    }
}

/// All counters of acme's, emptied at an instant.
fn emptied(at: Timestamp) -> Reset {
    Reset {
        policy: None,
        who: Who::Org,
        quotas: true,
        epoch: at.nanos(),
        at,
    }
}

#[test]
fn what_was_emptied_since_is_not_gone_on_with() {
    let server = Server::new(SLOW);
    let at = |hour: u64| seconds(START + hour * HOUR);
    assert_eq!(server.let_through("web", at(0)), 10);
    let raised = of_web(r#""limit":25"#);
    server.put(std::slice::from_ref(&raised), Vec::new(), at(1));
    server.put(&[raised], vec![emptied(at(2))], at(2));
    assert_eq!(server.let_through("web", at(3)), 25);
}
