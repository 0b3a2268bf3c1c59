//! Several requests decided as one, against a model that counts by hand: all are charged, each counter once, or none.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate::engine::{Engine, Part};
use tollgate_catalog::Request;
use tollgate_catalog::parse_policy_set;
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::Commit;

const POLICIES: &str = "
policies:
  - {id: all, scope: global, algorithm: fixed_window, limit: 40, window: 365d}
  - {id: org, scope: org, algorithm: fixed_window, limit: 20, window: 365d}
  - {id: user, scope: user, algorithm: sliding_window_log, limit: 9, window: 365d}
  - {id: place, scope: 'descriptor:place', algorithm: token_bucket, limit: 12, window: 365d}
  - {id: tried, scope: org, algorithm: fixed_window, limit: 5, window: 365d, mode: shadow}
";

const ORGS: [&str; 3] = ["acme", "globex", "initech"];
const USERS: [&str; 2] = ["u1", "u2"];
const PLACES: [&str; 2] = ["door", "gate"];

/// A request by the numbers of its names.
#[derive(Debug, Clone)]
struct Asked {
    org: Option<usize>,
    user: Option<usize>,
    place: Option<usize>,
    cost: u64,
}

impl Asked {
    fn part(&self) -> Part<'static> {
        let mut request = Request {
            org: self.org.map(|org| ORGS[org]),
            user: self.user.map(|user| USERS[user]),
            cost: self.cost,
            ..Request::new()
        };
        if let Some(place) = self.place {
            request.descriptors.push(("place", PLACES[place]));
        }
        Part { request, own: None }
    }

    /// The counters it meets, with their limits.
    fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = vec![("all".to_owned(), 40)];
        if let Some(org) = self.org {
            counters.push((format!("org {org}"), 20));
            counters.push((format!("tried {org}"), u64::MAX));
        }
        // A user without an org is one of no org.
        if let Some(user) = self.user {
            counters.push((format!("user {:?} {user}", self.org), 9));
        }
        if let Some(place) = self.place {
            counters.push((format!("place {place}"), 12));
        }
        counters
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    (
        prop::option::of(0..ORGS.len()),
        prop::option::of(0..USERS.len()),
        prop::option::of(0..PLACES.len()),
        0..5_u64,
    )
        .prop_map(|(org, user, place, cost)| Asked {
            org,
            user,
            place,
            cost,
        })
}

fn engine() -> Engine {
    let set = parse_policy_set(POLICIES).unwrap();
    Engine::new(&set, KeySeed::new(1, 2), 10_000, false).unwrap()
}

/// What is left of every enforced counter there can be, by the engine itself.
fn left(engine: &Engine, now: Timestamp) -> BTreeMap<String, u64> {
    let snapshot = engine.snapshot_full();
    let mut left = BTreeMap::new();
    let names = |count: usize| (0..count).map(Some).chain([None]);
    for org in names(ORGS.len()) {
        for user in names(USERS.len()) {
            for place in names(PLACES.len()) {
                let asked = Asked {
                    org,
                    user,
                    place,
                    cost: 0,
                };
                let part = asked.part();
                let Ok(checked) = engine.check(&snapshot, &part.request, Commit::DryRun, now) else {
                    panic!("undecided");
                };
                for (limit, outcome) in checked.stack.limits.iter().zip(&checked.decision.outcomes) {
                    let name = match &*limit.id {
                        "org" => format!("org {}", org.unwrap()),
                        "user" => format!("user {org:?} {}", user.unwrap()),
                        "place" => format!("place {}", place.unwrap()),
                        "all" => "all".to_owned(),
                        _ => continue,
                    };
                    left.insert(name, outcome.remaining);
                }
            }
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn all_are_charged_once_or_none(questions in prop::collection::vec(prop::collection::vec(asked(), 0..5), 1..25)) {
        let engine = engine();
        let snapshot = engine.snapshot_full();
        let now = Timestamp::from_nanos(1_800_000_000_000_000_000);
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for question in &questions {
            let parts: Vec<Part<'_>> = question.iter().map(Asked::part).collect();
            let mut costs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            for asked in question {
                for (counter, limit) in asked.counters() {
                    let known = costs.entry(counter).or_insert((0, limit));
                    known.0 = known.0.max(asked.cost);
                }
            }
            let fits = |(counter, (cost, limit)): (&String, &(u64, u64))| {
                *cost == 0 || used.get(counter).copied().unwrap_or(0) + cost <= *limit
            };
            let expected = costs.iter().all(fits);
            let before = left(&engine, now);
            let together = engine.check_together(&snapshot, &parts, Commit::Charge, now, None);
            let Ok(together) = together else { panic!("undecided") };
            prop_assert_eq!(together.checked.decision.allowed, expected, "{:?}", question);
            prop_assert_eq!(together.places.len(), question.len());
            for (asked, places) in question.iter().zip(&together.places) {
                prop_assert_eq!(places.len(), asked.counters().len());
            }
            if expected {
                for (counter, (cost, _)) in costs {
                    *used.entry(counter).or_default() += cost;
                }
            } else {
                prop_assert_eq!(&left(&engine, now), &before, "denied, and yet charged: {:?}", question);
            }
            for (counter, left) in left(&engine, now) {
                let limit = match counter.split(' ').next().unwrap() {
                    "all" => 40,
                    "org" => 20,
                    "user" => 9,
                    _ => 12,
                };
                prop_assert_eq!(left, limit - used.get(&counter).copied().unwrap_or(0), "{}", counter);
            }
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more(steps in prop::collection::vec((any::<bool>(), asked()), 1..40)) {
        let engine = engine();
        let snapshot = engine.snapshot_full();
        let now = Timestamp::from_nanos(1_800_000_000_000_000_000);
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for (gives, asked) in &steps {
            let part = asked.part();
            if *gives {
                let given = engine.give_back(&snapshot, &part, now, Commit::Charge);
                prop_assert!(given.is_some_and(|given| given.checked.decision.allowed));
                for (counter, _) in asked.counters() {
                    let used = used.entry(counter).or_default();
                    *used = used.saturating_sub(asked.cost);
                }
            } else {
                let checked = engine.check(&snapshot, &part.request, Commit::Charge, now);
                let Ok(checked) = checked else { panic!("undecided") };
                if checked.decision.allowed {
                    for (counter, _) in asked.counters() {
                        *used.entry(counter).or_default() += asked.cost;
                    }
                }
            }
            for (counter, left) in left(&engine, now) {
                let limit = match counter.split(' ').next().unwrap() {
                    "all" => 40,
                    "org" => 20,
                    "user" => 9,
                    _ => 12,
                };
                prop_assert_eq!(left, limit - used.get(&counter).copied().unwrap_or(0), "{}", counter);
            }
        }
    }
}
