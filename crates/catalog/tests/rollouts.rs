//! An old and a new policy set side by side: who is decided by which, and by which counters.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::HashSet;

use common::{SEED, applied, now, request, resolved};
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::{Eras, PolicySet, Rollout, RolloutState, Share};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{CounterKey, Mode};

/// Chosen by the rollout `summer` from 12 percent on.
const EARLY: &str = "acme";
/// Chosen from 93 percent on.
const LATE: &str = "globex";

const ACTIVE: &str = "
tiers: [{tier: gold}]
orgs: [{orgId: acme, tier: gold}, {orgId: globex, tier: gold}]
policies:
  - {id: rate, algorithm: fixed_window, limit: 30, window: 1h}
  - {id: gone, scope: app, algorithm: fixed_window, limit: 7, window: 1h}
  - {id: same, orgTier: gold, scope: key, limit: 5, window: 1m}
";

fn share(rollout: &str, percent: u8) -> Share {
    Share {
        rollout: rollout.to_owned(),
        percent,
    }
}

/// A set with the rollout `summer`, whose candidate has these policies.
fn rolled_out(active: &str, percent: u8, policies: &str, removes: &[&str]) -> PolicySet {
    let candidate = parse_policy_set(&format!("policies: [{policies}]")).unwrap();
    PolicySet {
        rollout: Some(Rollout {
            share: share("summer", percent),
            policies: candidate.policies,
            removes: removes.iter().map(|id| (*id).to_owned()).collect(),
            state: RolloutState::Open,
            chosen: tollgate_core::Timestamp::EPOCH,
        }),
        ..parse_policy_set(active).unwrap()
    }
}

fn compiled(set: &PolicySet) -> Result<Snapshot, Problems> {
    Snapshot::compile(set, SEED, None)
}

/// The counter of a limit for a request.
fn key(snapshot: &Snapshot, text: &str, id: &str) -> CounterKey {
    let asked = request(text);
    let stack = resolved(snapshot, &asked, now());
    let place = stack.limits.iter().position(|limit| &*limit.id == id);
    stack.levels[place.unwrap_or_else(|| panic!("{id} does not apply to {text}"))].key
}

/// The levels whose counters are bounded by others, with those.
fn formers(snapshot: &Snapshot, text: &str) -> Vec<(String, CounterKey)> {
    let asked = request(text);
    let stack = resolved(snapshot, &asked, now());
    let formers = stack.formers.iter();
    formers
        .map(|former| (stack.limits[former.level].id.to_string(), former.key))
        .collect()
}

#[test]
fn the_choice_of_an_org_is_the_same_on_every_node_and_in_every_version() {
    // The first eight bytes of the SHA-256 of both ids with a NUL between them, modulo 10,000, by another program.
    for (rollout, org, bucket) in [
        ("summer", "acme", 1_153),
        ("summer", "globex", 9_241),
        ("winter", "acme", 5_120),
        ("summer", "Ünï", 9_523),
    ] {
        let from = u8::try_from(bucket / 100 + 1).unwrap();
        assert!(share(rollout, from).includes(Some(org)), "{rollout} {org}");
        assert!(!share(rollout, from - 1).includes(Some(org)), "{rollout} {org}");
    }
}

#[test]
fn a_larger_share_only_adds_orgs_and_has_about_as_many_as_it_says() {
    let mut before = vec![false; 10_000];
    for percent in 0..=100 {
        let share = share("summer", percent);
        let chosen: Vec<bool> = (0..10_000)
            .map(|org| share.includes(Some(&format!("org-{org}"))))
            .collect();
        let left = before.iter().zip(&chosen).filter(|(was, is)| **was && !**is);
        assert_eq!(left.count(), 0, "{percent} percent");
        let count = chosen.iter().filter(|is| **is).count();
        // Five standard deviations of a fair draw, at their widest.
        assert!(
            count.abs_diff(usize::from(percent) * 100) <= 250,
            "{count} of {percent} percent"
        );
        before = chosen;
    }
    assert!(before.iter().all(|is| *is));
}

#[test]
fn requests_of_no_org_follow_when_all_orgs_have() {
    assert!(!share("summer", 99).includes(None));
    assert!(share("summer", 100).includes(None));
    let tighter = "{id: all, scope: global, limit: 1, window: 1m}";
    let at = |percent| compiled(&rolled_out("policies: []", percent, tighter, &[])).unwrap();
    assert_eq!(applied(&at(99), ""), "all@summer=1");
    assert_eq!(applied(&at(100), ""), "all=1");
}

#[test]
fn each_org_is_decided_by_its_set_known_or_not() {
    let candidate =
        "{id: rate, algorithm: fixed_window, limit: 3, window: 1h}, {id: new, limit: 9, window: 1s}";
    let snapshot = compiled(&rolled_out(ACTIVE, 50, candidate, &["gone"])).unwrap();
    let early = "new=9 rate=3 gone@active=7 same=5";
    let late = "new@summer=9 rate=30 rate@summer=3 gone=7 same=5";
    assert_eq!(applied(&snapshot, &format!("{EARLY}/web key=k")), early);
    assert_eq!(applied(&snapshot, &format!("{LATE}/web key=k")), late);
    let share = share("summer", 50);
    for org in ["org-1", "org-2", "org-3", "org-4", "org-5", "org-6"] {
        let of_set = if share.includes(Some(org)) { early } else { late };
        let of_set = of_set.trim_end_matches(" same=5");
        assert_eq!(applied(&snapshot, &format!("{org}/web key=k")), of_set, "{org}");
    }
    assert_eq!(snapshot.share(), Some(&share));
    // What only stands beside is no policy in force.
    assert_eq!(snapshot.limits().len(), 3);
}

#[test]
fn what_stands_beside_refuses_nothing() {
    let candidate = "{id: rate, limit: 3, window: 1h}, {id: new, limit: 9, window: 1s}";
    let snapshot = compiled(&rolled_out(ACTIVE, 50, candidate, &["gone"])).unwrap();
    for org in [EARLY, LATE] {
        let text = format!("{org}/web key=k");
        let asked = request(&text);
        let stack = resolved(&snapshot, &asked, now());
        for (level, limit) in stack.levels.iter().zip(&stack.limits) {
            // What is kept counts all, what is tried only what it would let through.
            let mode = match limit.id.split_once('@') {
                None => Mode::Enforce,
                Some((_, "active")) => Mode::Soft,
                Some(_) => Mode::Shadow,
            };
            assert_eq!(level.mode, mode, "{}", limit.id);
            assert_eq!(limit.expose, mode == Mode::Enforce, "{}", limit.id);
        }
    }
}

#[test]
fn only_what_would_refuse_and_is_another_is_tried() {
    let candidate = "{id: rate, algorithm: fixed_window, limit: 30, window: 1h},
        {id: a, mode: shadow, limit: 1, window: 1h}, {id: b, mode: soft, limit: 1, window: 1h},
        {id: c, mode: off, limit: 1, window: 1h}, {id: d, limit: 1, window: 1h}";
    let snapshot = compiled(&rolled_out(ACTIVE, 0, candidate, &[])).unwrap();
    assert_eq!(applied(&snapshot, LATE), "d@summer=1 rate=30");
}

#[test]
fn a_new_limit_keeps_the_count_and_what_is_tried_is_counted_apart() {
    let plain = compiled(&parse_policy_set(ACTIVE).unwrap()).unwrap();
    let candidate = "{id: rate, algorithm: fixed_window, limit: 3, window: 1h}";
    let snapshot = compiled(&rolled_out(ACTIVE, 50, candidate, &[])).unwrap();
    for org in [EARLY, LATE] {
        assert_eq!(key(&snapshot, org, "rate"), key(&plain, org, "rate"), "{org}");
    }
    assert_ne!(key(&snapshot, LATE, "rate@summer"), key(&plain, LATE, "rate"));
    assert_eq!(
        applied(&snapshot, EARLY),
        "rate=3",
        "one count needs no second level"
    );
    // Quotas of other policies share their count by what they count: tried ones don't join them.
    let quota = "{id: quota, limit: 5, window: day}";
    let active = format!("policies: [{quota}]");
    let snapshot = compiled(&rolled_out(&active, 50, "{id: more, limit: 9, window: day}", &[])).unwrap();
    assert_ne!(key(&snapshot, LATE, "more@summer"), key(&snapshot, LATE, "quota"));
    assert_eq!(key(&snapshot, EARLY, "more"), key(&snapshot, EARLY, "quota"));
}

#[test]
fn a_candidate_that_counts_anew_starts_with_no_more_room_than_the_active_set_left() {
    let active = parse_policy_set(ACTIVE).unwrap();
    let plain = compiled(&active).unwrap();
    let candidate = "{id: rate, algorithm: sliding_window_log, limit: 20, window: 1h}";
    let old = key(&plain, EARLY, "rate");
    let mut snapshot = plain.clone();
    let mut set = active;
    let mut eras = Eras::default();
    let mut counters = HashSet::new();
    // However many steps it takes.
    for (number, percent) in (1..).zip([0, 5, 11, 20, 40, 60, 80, 90, 91]) {
        let mut next = rolled_out(ACTIVE, percent, candidate, &[]);
        eras = eras.next(&set.in_force(), &next.in_force(), number, now());
        eras.mark(&mut next);
        snapshot = snapshot.with_common(&next, now()).unwrap();
        set = next;
        if percent > 11 {
            assert_eq!(
                formers(&snapshot, EARLY),
                [("rate".to_owned(), old)],
                "{percent} percent"
            );
            assert_eq!(key(&snapshot, EARLY, "rate@active"), old);
            counters.insert(key(&snapshot, EARLY, "rate"));
        } else {
            assert_eq!(applied(&snapshot, EARLY), "rate=30 rate@summer=20");
            assert_eq!(key(&snapshot, EARLY, "rate"), old);
        }
    }
    // Promoted, all do, those that had not asked since they were chosen too.
    let promoted = ACTIVE.replace(
        "algorithm: fixed_window, limit: 30",
        "algorithm: sliding_window_log, limit: 20",
    );
    let mut promoted = parse_policy_set(&promoted).unwrap();
    let eras = eras.next(&set.in_force(), &promoted.in_force(), 99, now());
    eras.mark(&mut promoted);
    let promoted = snapshot.with_common(&promoted, now()).unwrap();
    counters.insert(key(&promoted, EARLY, "rate"));
    assert_eq!(counters.len(), 1, "who stays chosen goes on with its count");
    for org in [EARLY, LATE] {
        assert_eq!(applied(&promoted, org), "rate=20");
        assert!(
            formers(&promoted, org).contains(&("rate".to_owned(), key(&plain, org, "rate"))),
            "{org}"
        );
    }
}

#[test]
fn what_spans_orgs_is_one_count_for_those_of_both_sets() {
    let active = "policies: [{id: all, scope: global, algorithm: fixed_window, limit: 9, window: 1h}]";
    let plain = compiled(&parse_policy_set(active).unwrap()).unwrap();
    let candidate = "{id: all, scope: global, algorithm: leaky_bucket, limit: 5, window: 1h}";
    let snapshot = compiled(&rolled_out(active, 50, candidate, &[])).unwrap();
    assert_eq!(applied(&snapshot, EARLY), "all=5 all@active=9");
    assert_eq!(applied(&snapshot, LATE), "all=9 all@summer=5");
    assert_eq!(key(&snapshot, EARLY, "all"), key(&snapshot, LATE, "all@summer"));
    for (org, id) in [(EARLY, "all@active"), (LATE, "all")] {
        assert_eq!(key(&snapshot, org, id), key(&plain, org, "all"));
    }
    let asked = request(LATE);
    let stack = resolved(&snapshot, &asked, now());
    assert_eq!(stack.levels[1].mode, Mode::Soft);
    let algorithm = stack.levels[1].rule.algorithm;
    assert_eq!(
        algorithm,
        tollgate_core::Algorithm::TokenBucket,
        "nobody waits for a turn"
    );
    let old = key(&plain, LATE, "all");
    assert_eq!(formers(&snapshot, LATE), [("all@summer".to_owned(), old)]);
    // With the same count there is nothing to keep, only to try.
    let tighter = "{id: all, scope: global, algorithm: fixed_window, limit: 5, window: 1h}";
    let snapshot = compiled(&rolled_out(active, 50, tighter, &[])).unwrap();
    assert_ne!(key(&snapshot, LATE, "all@summer"), old);
}

#[test]
fn a_count_that_only_others_go_on_with_is_kept() {
    let active = "tiers: [{tier: gold}]
policies:
  - {id: mine, limit: 9, window: day}
  - {id: theirs, orgTier: gold, limit: 9, window: day}";
    let candidate = "{id: mine, limit: 9, window: month}";
    let snapshot = compiled(&rolled_out(active, 50, candidate, &[])).unwrap();
    assert_eq!(applied(&snapshot, EARLY), "mine=9 mine@active=9");
    let off = "{id: mine, limit: 9, window: day, mode: off}";
    let snapshot = compiled(&rolled_out(active, 50, off, &[])).unwrap();
    assert_eq!(applied(&snapshot, EARLY), "mine@active=9");
}

#[test]
fn a_promoted_rollout_is_a_plain_change() {
    let candidate =
        "{id: rate, algorithm: fixed_window, limit: 3, window: 1h}, {id: new, limit: 9, window: 1s}";
    let whole = compiled(&rolled_out(ACTIVE, 100, candidate, &["gone"])).unwrap();
    let mut plain = parse_policy_set(ACTIVE).unwrap();
    plain.policies = rolled_out(ACTIVE, 0, candidate, &["gone"])
        .rollout
        .unwrap()
        .applied_to(&plain.policies);
    let plain = compiled(&plain).unwrap();
    for text in ["acme/web key=k", "globex/web key=k", "other/web", "app=web"] {
        let asked = request(text);
        let of = |snapshot| {
            let stack = resolved(snapshot, &asked, now());
            let levels = stack.levels.iter().zip(&stack.limits);
            let own = levels.filter(|(_, limit)| !limit.id.contains('@'));
            own.map(|(level, limit)| format!("{} {} {:?}", limit.id, limit.rule.limit, level.key))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&whole), of(&plain), "{text}");
    }
}

#[test]
fn overrides_hold_in_both_sets_and_for_what_is_tried() {
    let overrides = "overrides:
  - {orgId: acme, policyId: rate, limit: 100}
  - {orgId: globex, policyId: rate, limit: 100}
  - {orgId: globex, appId: web, policyId: gone, limit: 1}
";
    let active = format!("{ACTIVE}{overrides}");
    let candidate = "{id: rate, algorithm: fixed_window, limit: 3, window: 1h},
        {id: gone, scope: app, algorithm: fixed_window, limit: 2, window: 1m}";
    let snapshot = compiled(&rolled_out(&active, 50, candidate, &[])).unwrap();
    assert_eq!(applied(&snapshot, "acme/web"), "rate=100 gone=2 gone@active=7");
    assert_eq!(
        applied(&snapshot, "globex/web"),
        "rate=100 rate@summer=100 gone=1 gone@summer=1"
    );
    assert_eq!(
        applied(&snapshot, "globex/ios"),
        "rate=100 rate@summer=100 gone=7 gone@summer=2"
    );
}

#[test]
fn a_reset_of_a_policy_empties_what_is_tried_of_it_too() {
    use tollgate_catalog::model::{Org, OrgRecord, Reset, Who};

    let candidate = "{id: rate, algorithm: fixed_window, limit: 3, window: 1h}";
    let snapshot = compiled(&rolled_out(ACTIVE, 50, candidate, &[])).unwrap();
    let record = OrgRecord {
        resets: vec![Reset {
            policy: Some("rate".to_owned()),
            who: Who::Org,
            quotas: true,
            epoch: 1,
            at: now(),
        }],
        ..OrgRecord::plain(Org::named(LATE))
    };
    let emptied = snapshot
        .with_orgs(vec![(LATE.to_owned(), Some(record))], now())
        .unwrap();
    for id in ["rate", "rate@summer"] {
        assert_ne!(key(&emptied, LATE, id), key(&snapshot, LATE, id), "{id}");
    }
}

#[test]
fn routes_of_either_set_are_told_apart_in_both() {
    let active = "policies:
  - {id: a, endpointPattern: GET /a, limit: 5, window: 1m}
overrides:
  - {orgId: acme, policyId: a, endpointPattern: GET /own, limit: 1}
  - {orgId: globex, policyId: a, endpointPattern: GET /own, limit: 1}
";
    let candidate = "{id: b, endpointPattern: GET /b, limit: 6, window: 1m}";
    let snapshot = compiled(&rolled_out(active, 50, candidate, &[])).unwrap();
    for (text, wanted) in [
        ("acme GET /a", "a=5"),
        ("acme GET /b", "b=6"),
        ("globex GET /a", "a=5"),
        ("globex GET /b", "b@summer=6"),
        ("acme GET /c", ""),
    ] {
        assert_eq!(applied(&snapshot, text), wanted, "{text}");
    }
    for org in [EARLY, LATE] {
        assert_eq!(
            applied(&snapshot, &format!("{org} GET /own")).split('=').count(),
            2,
            "{org}"
        );
    }
}

#[test]
fn a_candidate_that_does_not_compile_is_refused_with_its_reason() {
    let set = rolled_out(ACTIVE, 0, "{id: slow, limit: 5, window: 1m}", &[]);
    let mut unknown = set.clone();
    unknown.rollout.as_mut().unwrap().policies[0].pattern =
        tollgate_catalog::route::Pattern::parse("class:slow").unwrap();
    let problems = compiled(&unknown).err().unwrap().to_string();
    assert!(
        problems.contains("there is no endpoint class `slow`"),
        "{problems}"
    );
    let shared = "{id: one, counter: c, limit: 5, window: 1m}, {id: two, counter: c, limit: 6, window: 1m}";
    let problems = compiled(&rolled_out(ACTIVE, 0, shared, &[]))
        .err()
        .unwrap()
        .to_string();
    assert!(problems.contains("can't refill at two rates"), "{problems}");
    // The two sets need not agree with each other.
    let active = "policies: [{id: one, counter: c, limit: 5, window: 1m}]";
    let set = rolled_out(
        active,
        50,
        "{id: two, counter: c, limit: 6, window: 1m}",
        &["one"],
    );
    assert_eq!(applied(&compiled(&set).unwrap(), EARLY), "two=6");
}
