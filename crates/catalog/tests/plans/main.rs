//! Tiers, users with a plan of their own, and overrides of all kinds: what is decided, explained and shown as effective is one
//! and the same, and what docs/policies.md says. Worlds are drawn anew each time, and judged by a model of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod world;

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use common::{now, resolved};
use model::{Asked, World};
use tollgate_catalog::Request;
use tollgate_catalog::document::{Fields, Node, Problems};
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord, Override, UserPlan};
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::{Snapshot, Verdict};
use world::{Draw, requests};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// More with `TOLLGATE_PLANS`; `TOLLGATE_PLANS_SEED` with one world draws the same again.
#[test]
fn fresh_worlds_are_decided_explained_and_shown_alike() {
    let fresh = || RandomState::new().build_hasher().finish() >> 16;
    let seed = number("TOLLGATE_PLANS_SEED").unwrap_or_else(fresh);
    let worlds = number("TOLLGATE_PLANS").unwrap_or(150);
    println!("TOLLGATE_PLANS_SEED={seed} TOLLGATE_PLANS={worlds}");
    let (mut accepted, mut refused, mut met) = (0, 0, 0);
    for seed in seed..seed + worlds {
        let (taken, not) = play(seed, &mut met);
        accepted += taken;
        refused += not;
    }
    println!(
        "{accepted} overrides accepted, {refused} refused; {met} times one was met by a user with a plan"
    );
    assert!(accepted > worlds && refused > 0 && met > worlds);
}

/// Plays one world: how many of its overrides were accepted, and how many refused.
fn play(seed: u64, met: &mut u64) -> (u64, u64) {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = world::draw(&mut draw);
    let bare = common::snapshot(&world.file());
    let mut snapshot = with(&bare, &world).unwrap_or_else(|problems| panic!("seed {seed}: {problems}"));
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..draw.below(9) {
        let change = world::draw_override(&mut draw, &world);
        let expected = world.accepts(&change);
        world.overrides.push(change);
        match (with(&bare, &world), expected) {
            (Ok(next), true) => {
                snapshot = next;
                accepted += 1;
            }
            (Err(_), false) => {
                world.overrides.pop();
                refused += 1;
            }
            (is, _) => {
                let change = world.overrides.last().unwrap().json();
                panic!(
                    "seed {seed}: {change} is {:?}, and ought not to be\n{}",
                    is.map(|_| "accepted"),
                    world.shown()
                );
            }
        }
        if draw.below(4) == 0 {
            // Users come and go while there are overrides.
            let users = world.users.clone();
            world::draw_users(&mut draw, &mut world);
            match with(&bare, &world) {
                Ok(next) => snapshot = next,
                Err(problems) => {
                    assert!(!world.fits(), "seed {seed}: {problems}\n{}", world.shown());
                    world.users = users;
                }
            }
        }
    }
    judge(seed, &world, &snapshot, met);
    (accepted, refused)
}

fn with(bare: &Snapshot, world: &World) -> Result<Snapshot, Problems> {
    let mut org = Org::named("acme");
    world.tier.clone_into(&mut org.tier);
    let mut problems = Problems::default();
    let overrides = world.overrides.iter().map(|change| {
        let node = Node::from_json(&change.json());
        let fields = Fields::of(&node, "", &mut problems).unwrap();
        KeptOverride::Read(Override::read(fields, &mut problems).unwrap().into())
    });
    let record = OrgRecord {
        overrides: overrides.collect(),
        users: world
            .users
            .iter()
            .map(|(id, tier)| UserPlan {
                id: id.clone(),
                tier: tier.clone(),
                anchor: None,
            })
            .collect(),
        ..OrgRecord::plain(org)
    };
    problems.sorted()?;
    bare.with_orgs(vec![("acme".to_owned(), Some(record))], now())
}

/// Holds what is decided for every request there is against what ought to be, what is explained and what is shown.
fn judge(seed: u64, world: &World, snapshot: &Snapshot, met: &mut u64) {
    let effective = snapshot.effective("acme", now());
    let shown: BTreeSet<u64> = effective.iter().map(|one| one.limit.rule.limit).collect();
    let mut decided_once = BTreeSet::new();
    for asked in requests() {
        let request = request(&asked);
        let stack = resolved(snapshot, &request, now());
        let decided: BTreeSet<u64> = stack.limits.iter().map(|limit| limit.rule.limit).collect();
        let context = || format!("seed {seed}: {asked:?}\n{}", world.shown());
        assert_eq!(
            stack.limits.len(),
            decided.len(),
            "one limit counts twice: {}",
            context()
        );
        assert_eq!(
            decided,
            world.limits_of(&asked),
            "decided, and what ought to be: {}",
            context()
        );
        let explained = snapshot.explain(&request, now()).into_iter();
        let explained = explained.filter(|one| one.verdict == Verdict::Applies);
        let explained: BTreeSet<u64> = explained.map(|one| one.limit.rule.limit).collect();
        assert_eq!(explained, decided, "explained, and decided: {}", context());
        assert!(
            decided.is_subset(&shown),
            "decided {decided:?}, shown {shown:?}: {}",
            context()
        );
        let plan = asked
            .user
            .is_some_and(|user| world.users.iter().any(|(known, _)| known == user));
        *met += u64::from(plan && decided.iter().any(|limit| *limit >= model::FIRST_OF_OVERRIDES));
        decided_once.extend(decided);
    }
    // What is for a user or a key is met by them. What is for more may have others in its place for everyone who is there.
    for one in &effective {
        let limit = one.limit.rule.limit;
        let for_all = !one.who.starts_with("user ") && !one.who.starts_with("key ");
        assert!(
            decided_once.contains(&limit) || for_all,
            "seed {seed}: {limit} for {} is shown, and nobody meets it\n{}",
            one.who,
            world.shown(),
        );
    }
}

fn request<'r>(asked: &Asked<'r>) -> Request<'r> {
    let mut request = Request::new();
    request.org = Some("acme");
    (request.app, request.key, request.user) = (asked.app, asked.key, asked.user);
    request.ip = asked.ip.then(|| Request::address("203.0.113.9").unwrap());
    request.endpoint = asked.endpoint.map(|endpoint| Endpoint::parse(endpoint).unwrap());
    if asked.write {
        request.scopes.push("write");
    }
    request
}
