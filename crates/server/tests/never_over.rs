//! However policies change, nobody is let through more often than the widest limit in force allows.
//!
//! A policy is changed at random: by hand, to and fro between ways of counting, by rollouts that are opened, moved to
//! and fro, promoted and rolled back, taken away and put again. All windows end on the hour or later, so within an hour
//! nothing flows back, and what is let through can only add up. It is judged from outside.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;

use serde_json::Value;
use tollgate::engine::Engine;
use tollgate_catalog::Request;
use tollgate_catalog::model::{Eras, Policy, PolicySet, Rollout, RolloutState, Share};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::route::Endpoint;
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::Commit;

/// A midnight.
const START: u64 = 1_699_920_000;
const HOUR: u64 = 3_600;
const CHECKS: u64 = 1_200;
const ORGS: u64 = 6;
const MOST_COST: u64 = 12;

/// The same numbers for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one<'o, T>(&mut self, of: &'o [T]) -> &'o T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// A catalogue whose changes are numbered, as a database numbers them.
struct Changing {
    engine: Engine,
    set: PolicySet,
    eras: Eras,
    number: u64,
    /// It is given other limits, too.
    other_limits: bool,
    /// By how much limits were raised while they counted the same way.
    raised: u64,
    /// The policy as it last was: one that was taken away meanwhile goes on with its count.
    last: Option<Policy>,
}

impl Changing {
    fn new(seed: u64, other_limits: bool) -> Self {
        Self {
            other_limits,
            engine: Engine::new(&PolicySet::default(), KeySeed::new(seed, 1), 1_000_000, false).unwrap(),
            set: PolicySet::default(),
            eras: Eras::default(),
            number: 0,
            raised: 0,
            last: None,
        }
    }

    fn put(&mut self, policies: Vec<Policy>, rollout: Option<Rollout>, now: Timestamp) {
        self.number += 1;
        let mut set = PolicySet {
            policies,
            rollout,
            ..PolicySet::default()
        };
        let eras = self
            .eras
            .next(&self.set.in_force(), &set.in_force(), self.number, now);
        // Nodes know them by their document only.
        self.eras = Eras::read(&eras.document().unwrap_or(Value::Null));
        assert_eq!(self.eras.document(), eras.document());
        self.raised += raise(self.last.as_ref(), rate(&set.policies));
        // Whoever is chosen has the candidate's limit for its count.
        let candidate = set.rollout.iter().find_map(|rollout| rate(&rollout.policies));
        self.raised += raise(rate(&set.policies), candidate);
        self.eras.mark(&mut set);
        self.last = rate(&set.policies).or(self.last.as_ref()).cloned();
        let snapshot = self.engine.snapshot_full().with_common(&set, now).unwrap();
        self.engine.install(snapshot);
        self.set = set;
    }

    /// Something that an operator may do, at random.
    fn step(&mut self, draw: &mut Draw, ways: &[Policy], now: Timestamp) {
        if self.set.rollout.is_none() && self.other_limits && draw.below(2) == 0 {
            let mut policies = self.set.policies.clone();
            for rate in policies.iter_mut().filter(|policy| policy.id == "rate") {
                rate.values.limit = Some(5 + draw.below(40));
            }
            return self.put(policies, None, now);
        }
        let policies = self.set.policies.clone();
        let mut others = policies.clone();
        others.retain(|policy| policy.id != "rate");
        match (self.set.rollout.clone(), draw.below(8)) {
            (None, 0) => self.put(others, None, now),
            (None, 1) => {
                let shares = draw.below(2) == 0;
                let other = other().into_iter().filter(|_| shares);
                let rate = policies.into_iter().filter(|policy| policy.id == "rate");
                self.put(rate.chain(other).collect(), None, now);
            }
            (None, 2..=4) => {
                others.push(draw.one(ways).clone());
                self.put(others, None, now);
            }
            (None, _) => {
                let percent = u8::try_from(draw.below(101)).unwrap();
                self.put(policies, Some(rollout(draw.one(ways), percent)), now);
            }
            (Some(_), 0) => self.put(policies, None, now),
            (Some(open), 1) => self.put(open.applied_to(&policies), None, now),
            (Some(open), 2) => {
                let other = rollout(draw.one(ways), open.share.percent);
                self.put(policies, Some(other), now);
            }
            (Some(mut open), _) => {
                open.share.percent = u8::try_from(draw.below(101)).unwrap();
                self.put(policies, Some(open), now);
            }
        }
    }
}

fn rate(policies: &[Policy]) -> Option<&Policy> {
    policies.iter().find(|policy| policy.id == "rate")
}

/// By how much a limit is raised that counts as before.
fn raise(before: Option<&Policy>, after: Option<&Policy>) -> u64 {
    let (Some(before), Some(after)) = (before, after) else {
        return 0;
    };
    let mut same = before.clone();
    same.values.limit = after.values.limit;
    (same.since, same.shared_since) = (after.since, after.shared_since);
    let raise = after
        .values
        .limit
        .unwrap()
        .saturating_sub(before.values.limit.unwrap());
    if same == *after { raise } else { 0 }
}

fn policies(text: &str) -> Vec<Policy> {
    parse_policy_set(&format!("policies: [{text}]")).unwrap().policies
}

/// Shares the count of a daily quota of all orgs, though it is for nobody.
fn other() -> Vec<Policy> {
    policies("{id: other, orgTier: gold, limit: 9, window: day}")
}

fn rollout(policy: &Policy, percent: u8) -> Rollout {
    Rollout {
        share: Share {
            rollout: "trial".to_owned(),
            percent,
        },
        policies: vec![policy.clone()],
        removes: Vec::new(),
        state: RolloutState::Open,
        chosen: Timestamp::EPOCH,
    }
}

/// What was let through to somebody within an hour, and what was allowed.
#[derive(Default)]
struct Hour {
    admitted: u64,
    widest: u64,
}

/// What is changed, and who is counted together.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    /// Ways of counting, each with its limit, for each org.
    Ways,
    /// The same for all orgs together.
    Global,
    /// Limits as well.
    Limits,
    /// Ways of counting that tell more or fewer apart, judged by app.
    Scopes,
}

/// Lets orgs ask at random while a policy goes from one of these ways of counting to another. Returns how often one was
/// refused.
fn changes(seed: u64, ways: &[&str], case: Case) -> u64 {
    let mut draw = Draw(seed);
    let global = case == Case::Global;
    let scope = if global { "scope: global, " } else { "" };
    let apps = if case == Case::Scopes { 2 } else { 1 };
    let way = |way: &&str| {
        let limit = 5 + draw.below(40);
        policies(&format!("{{id: rate, {scope}limit: {limit}, {way}}}")).remove(0)
    };
    let ways: Vec<Policy> = ways.iter().map(way).collect();
    let narrowest = ways.iter().filter_map(|way| way.values.limit).min().unwrap();
    let mut catalogue = Changing::new(seed, case == Case::Limits);
    let mut hours: HashMap<(u64, u64), Hour> = HashMap::new();
    let (mut at, mut refused) = (START, 0);
    catalogue.put(
        vec![ways[0].clone()],
        None,
        Timestamp::from_nanos(at * 1_000_000_000),
    );
    for check in 0..CHECKS {
        let hour = at / HOUR;
        at += draw.below(20);
        if at / HOUR > hour {
            catalogue.raised = 0;
        }
        let now = Timestamp::from_nanos(at * 1_000_000_000 + check);
        if draw.below(12) == 0 {
            catalogue.step(&mut draw, &ways, now);
        }
        let (org, cost) = (draw.below(ORGS), 1 + draw.below(MOST_COST));
        let (name, app) = (format!("org-{org}"), if apps > 1 { draw.below(apps) } else { 0 });
        let request = Request {
            org: Some(&name),
            app: Some(["web", "mobile"][usize::try_from(app).unwrap()]),
            endpoint: Some(Endpoint::parse("GET /a").unwrap()),
            cost,
            ..Request::new()
        };
        let snapshot = catalogue.engine.snapshot_full();
        let checked = catalogue
            .engine
            .check(&snapshot, &request, Commit::Charge, now)
            .unwrap();
        let limits = checked.stack.limits.iter();
        let Some(limit) = limits.clone().find(|limit| &*limit.id == "rate") else {
            assert!(checked.decision.allowed);
            continue;
        };
        let whose = if global { 0 } else { org * apps + app };
        let hour = hours.entry((whose, at / HOUR)).or_default();
        if checked.decision.allowed {
            hour.admitted += cost;
            hour.widest = hour.widest.max(limit.rule.limit);
            assert!(
                hour.admitted <= hour.widest + catalogue.raised,
                "seed {seed}, check {check}: {} let through to {name}, at most {} + {} allowed",
                hour.admitted,
                hour.widest,
                catalogue.raised
            );
        } else {
            refused += 1;
            // In the first hour nothing is left over from before that could refuse them.
            assert!(
                matches!(case, Case::Limits | Case::Scopes)
                    || at / HOUR > START / HOUR
                    || hour.admitted + cost > narrowest,
                "seed {seed}, check {check}: {name} was refused after {}, at least {narrowest} allowed",
                hour.admitted
            );
        }
    }
    refused
}

const WAYS: [&str; 8] = [
    "algorithm: fixed_window, window: 1h",
    "algorithm: fixed_window, window: 2h",
    "algorithm: sliding_window_log, window: 1h",
    "algorithm: sliding_window_log, window: 3h",
    "algorithm: fixed_window, window: 1h, endpointPattern: GET /a",
    "algorithm: fixed_window, window: 1h, counter: shared",
    "window: day",
    "window: month",
];

#[test]
fn no_change_of_policies_lets_more_through_than_the_widest_limit_allows() {
    let refused: u64 = (0..80).map(|seed| changes(seed, &WAYS, Case::Ways)).sum();
    assert!(refused > 10_000, "limits are reached: {refused}");
}

#[test]
fn nor_to_all_orgs_together() {
    let refused: u64 = (0..50).map(|seed| changes(seed, &WAYS, Case::Global)).sum();
    assert!(refused > 10_000, "limits are reached: {refused}");
}

#[test]
fn other_limits_let_no_more_through_than_they_are_raised_by() {
    let refused: u64 = (0..140).map(|seed| changes(seed, &WAYS, Case::Limits)).sum();
    assert!(refused > 4_000, "limits are reached: {refused}");
}

/// By app and by org.
const SCOPES: [&str; 6] = [
    "scope: app, algorithm: fixed_window, window: 1h",
    "scope: org, algorithm: fixed_window, window: 1h",
    "scope: org, algorithm: sliding_window_log, window: 1h",
    "scope: app, algorithm: sliding_window_log, window: 2h",
    "scope: org, window: day",
    "scope: app, window: day",
];

#[test]
fn other_scopes_let_no_app_through_more_often_either() {
    let refused: u64 = (0..80).map(|seed| changes(seed, &SCOPES, Case::Scopes)).sum();
    assert!(refused > 10_000, "limits are reached: {refused}");
}

#[test]
fn two_ways_to_and_fro_let_no_more_through_either() {
    for pair in [[0, 2], [1, 3], [6, 7], [0, 4], [5, 6]] {
        let ways = pair.map(|way| WAYS[way]);
        let refused: u64 = (0..15).map(|seed| changes(seed, &ways, Case::Ways)).sum();
        assert!(refused > 1_000, "limits are reached: {refused}");
    }
}
