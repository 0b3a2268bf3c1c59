//! Since when policies count the way they do, and how they counted before.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{SEED, compiled, instant, now, request, resolved};
use serde_json::Value;
use tollgate_catalog::model::{Eras, Org, OrgRecord, PolicySet, Reset, Rollout, RolloutState, Share, Who};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{CounterKey, Timestamp};

/// A set that is changed time and again.
struct Changing {
    set: PolicySet,
    eras: Eras,
    number: u64,
}

impl Changing {
    fn begin(policies: &str) -> Self {
        Self {
            set: set(policies),
            eras: Eras::default(),
            number: 0,
        }
    }

    fn put(&mut self, mut next: PolicySet, now: Timestamp) -> Snapshot {
        self.number += 1;
        self.eras = self
            .eras
            .next(&self.set.in_force(), &next.in_force(), self.number, now);
        self.eras.mark(&mut next);
        self.set = next;
        Snapshot::compile(&self.set, SEED, None).unwrap()
    }

    fn change(&mut self, policies: &str) -> Snapshot {
        self.put(set(policies), now())
    }

    fn roll_out(&mut self, percent: u8, policies: &str) -> Snapshot {
        let rollout = Rollout {
            share: Share {
                rollout: "summer".to_owned(),
                percent,
            },
            policies: set(policies).policies,
            removes: Vec::new(),
            state: RolloutState::Open,
            chosen: Timestamp::EPOCH,
        };
        let next = PolicySet {
            policies: self.set.policies.clone(),
            rollout: Some(rollout),
            ..PolicySet::default()
        };
        self.put(next, now())
    }

    /// The eras of the active policy `p`, and of the candidate's.
    fn since(&self) -> (u64, Option<u64>) {
        let policies = self.set.rollout.as_ref().map(|rollout| &rollout.policies);
        let of = |policies: &[tollgate_catalog::model::Policy]| {
            let policy = policies.iter().find(|policy| policy.id == "p");
            policy.map(|policy| policy.since)
        };
        (
            of(&self.set.policies).unwrap(),
            policies.and_then(|policies| of(policies)),
        )
    }
}

fn set(policies: &str) -> PolicySet {
    parse_policy_set(&format!("tiers: [{{tier: gold}}]\npolicies: [{policies}]")).unwrap()
}

fn key(snapshot: &Snapshot, text: &str) -> CounterKey {
    let asked = request(text);
    resolved(snapshot, &asked, now()).levels[0].key
}

fn formers(snapshot: &Snapshot, text: &str, now: Timestamp) -> Vec<CounterKey> {
    let asked = request(text);
    let stack = resolved(snapshot, &asked, now);
    assert!(stack.formers.iter().all(|former| former.level == 0));
    stack.formers.iter().map(|former| former.key).collect()
}

const MINUTE: &str = "{id: p, limit: 5, window: 1m, algorithm: fixed_window}";
const HOUR: &str = "{id: p, limit: 5, window: 1h}";

#[test]
fn a_count_that_was_left_is_remembered_as_long_as_it_matters() {
    let mut changing = Changing::begin(MINUTE);
    let old = key(&compiled(&format!("policies: [{MINUTE}]")).unwrap(), "acme");
    let next = changing.change(HOUR);
    assert_eq!(formers(&next, "acme", now()), [old]);
    let later = instant("2024-07-15T12:01:00Z");
    assert!(
        formers(&next, "acme", later).is_empty(),
        "its window of a minute is over"
    );
    changing.put(set(HOUR), later);
    assert!(changing.set.pasts.is_empty());
    assert_eq!(changing.since(), (1, None), "the era stays what it is");
}

#[test]
fn another_limit_or_mode_begins_no_era() {
    let mut changing = Changing::begin(MINUTE);
    let key = |changing: &mut Changing, policy: &str| key(&changing.change(policy), "acme");
    let first = key(&mut changing, MINUTE);
    for policy in [
        MINUTE.replace("limit: 5", "limit: 9"),
        MINUTE.replace("limit: 5", "limit: 9, mode: off"),
        MINUTE.replace("limit: 5", "limit: 9, mode: shadow"),
    ] {
        changing.change(&policy);
    }
    assert_eq!(changing.since(), (0, None));
    assert_eq!(changing.eras.document(), None);
    assert_eq!(key(&mut changing, MINUTE), first);
}

#[test]
fn a_way_that_comes_back_is_another_count() {
    let mut changing = Changing::begin(MINUTE);
    let first = key(&changing.change(MINUTE), "acme");
    let between = key(&changing.change(HOUR), "acme");
    let back = changing.change(MINUTE);
    assert_ne!(key(&back, "acme"), first);
    assert_eq!(formers(&back, "acme", now()), [first, between]);
    // Deleted, it is remembered all the same.
    changing.change("");
    let again = changing.change(MINUTE);
    assert_eq!(
        formers(&again, "acme", now()),
        [first, between, key(&back, "acme")]
    );
    // Nothing is, once none of it matters.
    changing.put(set(""), instant("2024-07-15T14:00:00Z"));
    changing.put(set(MINUTE), instant("2024-07-15T16:00:00Z"));
    assert_eq!(changing.since(), (0, None));
}

#[test]
fn a_rollout_begins_eras_when_it_opens_and_when_it_lets_orgs_go() {
    let mut changing = Changing::begin(MINUTE);
    let plain = key(&changing.change(MINUTE), "acme");
    for (percent, since) in [(0, 2), (50, 2), (100, 2), (20, 5), (60, 5), (59, 7)] {
        changing.roll_out(percent, HOUR);
        assert_eq!(changing.since(), (0, Some(since)), "{percent} percent");
    }
    // With the same count it has the same era.
    changing.roll_out(30, &MINUTE.replace("limit: 5", "limit: 2"));
    assert_eq!(changing.since(), (0, Some(0)));
    changing.roll_out(60, HOUR);
    assert_eq!(changing.since(), (0, Some(9)));
    // Rolled back, what was in force all the while is not taken for something new.
    let mut rolled_back = Changing {
        set: changing.set.clone(),
        eras: changing.eras.clone(),
        ..changing
    };
    let active = rolled_back.change(MINUTE);
    assert_eq!(key(&active, "acme"), plain);
    assert!(formers(&active, "acme", now()).is_empty());
    // Promoted, the candidate goes on.
    changing.change(HOUR);
    assert_eq!(changing.since(), (9, None));
}

#[test]
fn policies_that_share_a_count_share_its_eras() {
    let day = |id: &str, tier: &str| format!("{{id: {id}, orgTier: {tier}, limit: 9, window: day}}");
    let both = format!("{}, {}", day("p", "default"), day("q", "gold"));
    let mut changing = Changing::begin(&both);
    let first = key(&changing.change(&both), "acme");
    let month = day("p", "default").replace("day", "month");
    changing.change(&format!("{month}, {}", day("q", "gold")));
    let since = |changing: &Changing| -> Vec<u64> {
        changing.set.policies.iter().map(|policy| policy.since).collect()
    };
    assert_eq!(since(&changing), [2, 0]);
    let back = changing.change(&both);
    assert_eq!(since(&changing), [3, 3]);
    assert!(formers(&back, "acme", now()).contains(&first));
    // Whoever joins them does, too, and so does who takes their place.
    changing.change(&format!("{both}, {}", day("r", "'*'")));
    assert_eq!(since(&changing), [3, 3, 3]);
    changing.change("");
    changing.change(&day("s", "gold"));
    assert_eq!(since(&changing), [3]);
}

#[test]
fn a_candidate_whose_active_policy_has_begun_an_era_begins_one_too() {
    let quota = |id: &str, window: &str| format!("{{id: {id}, limit: 9, window: {window}}}");
    let mut changing = Changing::begin(&format!("{}, {}", quota("p", "day"), quota("q", "month")));
    changing.roll_out(50, HOUR);
    assert_eq!(changing.since(), (0, Some(1)));
    // Another policy comes to share the count of the active one.
    let rollout = changing.set.rollout.clone();
    let next = PolicySet {
        rollout: rollout.clone(),
        ..set(&format!("{}, {}", quota("p", "day"), quota("q", "day")))
    };
    changing.put(next, now());
    assert_eq!(changing.since(), (2, Some(1)));
    let promoted = changing.change(&format!("{HOUR}, {}", quota("q", "day")));
    assert_eq!(changing.since(), (3, None));
    let of_p: Vec<u64> = changing
        .set
        .pasts
        .iter()
        .filter(|past| past.policy.id == "p")
        .map(|past| past.policy.since)
        .collect();
    assert_eq!(of_p, [0, 1, 2]);
    let asked = request("acme");
    let stack = resolved(&promoted, &asked, now());
    let of_p = stack
        .formers
        .iter()
        .filter(|former| &*stack.limits[former.level].id == "p");
    assert_eq!(of_p.count(), 3);
}

#[test]
fn an_override_holds_for_what_was_before_too() {
    let with = |policy: &str| PolicySet {
        overrides: parse_policy_set(
            "policies: [{id: p, limit: 1, window: 1h}]
overrides: [{orgId: acme, policyId: p, limit: 50}, {orgId: acme, appId: web, policyId: p, limit: 7}]",
        )
        .unwrap()
        .overrides,
        ..set(policy)
    };
    let mut changing = Changing::begin(MINUTE);
    changing.set = with(MINUTE);
    let before = Snapshot::compile(&changing.set, SEED, None).unwrap();
    let after = changing.put(with(HOUR), now());
    for (text, limits) in [("globex", vec![5]), ("acme", vec![50]), ("acme/web", vec![50, 7])] {
        let asked = request(text);
        let stack = resolved(&after, &asked, now());
        let old = resolved(&before, &asked, now());
        let found: Vec<_> = stack
            .formers
            .iter()
            .map(|one| (one.key, one.rule.limit))
            .collect();
        let keys = old.levels.iter().map(|level| level.key);
        assert_eq!(found, keys.zip(limits).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn what_a_policy_used_up_under_another_pattern_it_has_used_up() {
    let mut changing = Changing::begin("{id: p, limit: 5, window: 1h, endpointPattern: /a}");
    let old = key(
        &compiled("policies: [{id: p, limit: 5, window: 1h, endpointPattern: /a}]").unwrap(),
        "acme /a",
    );
    let wider = changing.change(HOUR);
    for text in ["acme /a", "acme /b", "acme"] {
        assert_eq!(formers(&wider, text, now()), [old], "{text}");
    }
}

#[test]
fn a_reset_leaves_nothing_of_what_was_before() {
    let mut changing = Changing::begin("{id: p, scope: global, limit: 5, window: 1h}");
    changing.change(MINUTE);
    let snapshot = changing.change(HOUR);
    let [of_all, of_org] = formers(&snapshot, "acme", now())[..] else {
        panic!("two were before");
    };
    let record = OrgRecord {
        resets: vec![Reset {
            policy: None,
            who: Who::Org,
            quotas: true,
            epoch: 1,
            at: Timestamp::EPOCH,
        }],
        ..OrgRecord::plain(Org::named("acme"))
    };
    let emptied = snapshot
        .with_orgs(vec![("acme".to_owned(), Some(record))], now())
        .unwrap();
    let after = formers(&emptied, "acme", now());
    assert_eq!(after[0], of_all, "what spans orgs is no org's to empty");
    assert_ne!(after[1], of_org);
}

/// Whether the one counter that was before has all that a request's counter would have had.
fn is_whole(snapshot: &Snapshot, text: &str) -> Vec<bool> {
    let asked = request(text);
    let stack = resolved(snapshot, &asked, now());
    stack.formers.iter().map(|former| former.whole).collect()
}

#[test]
fn a_count_of_fewer_is_only_a_part_of_what_was_before() {
    let of = |scope: &str| format!("{{id: p, scope: {scope}, limit: 5, window: 1h}}");
    for (before, after, whole) in [
        ("org", "app", true),
        ("app", "org", false),
        ("app", "user", false),
        ("app", "[app, user]", true),
        ("[app, user]", "app", false),
        ("global", "org", true),
        ("org", "global", false),
        ("endpoint", "org", true),
        ("'descriptor:region'", "org", false),
        ("ip, ipv4Prefix: 24", "ip", true),
        ("ip", "ip, ipv4Prefix: 24", false),
        ("ip", "[org, ip]", true),
    ] {
        let mut changing = Changing::begin(&of(before));
        let snapshot = changing.change(&of(after));
        let asked = "acme/web user=ann region=eu ip=192.0.2.7 GET /a";
        assert_eq!(is_whole(&snapshot, asked), [whole], "{before} to {after}");
    }
    // Who was in none of the old counters is in the new one, which others have used up.
    let mut changing = Changing::begin(&of("app"));
    let snapshot = changing.change(&of("org"));
    assert_eq!(is_whole(&snapshot, "acme"), [false]);
}

#[test]
fn a_reset_empties_what_counts_of_fewer_would_have_used_up() {
    let mut changing = Changing::begin("{id: p, scope: app, limit: 5, window: 1h}");
    let snapshot = changing.change("{id: p, scope: org, limit: 5, window: 1h}");
    for (at, formers) in [(now(), 0), (instant("2024-07-15T11:59:59Z"), 1)] {
        let record = OrgRecord {
            resets: vec![Reset {
                policy: Some("p".to_owned()),
                who: Who::Org,
                quotas: true,
                epoch: 1,
                at,
            }],
            ..OrgRecord::plain(Org::named("acme"))
        };
        let emptied = snapshot
            .with_orgs(vec![("acme".to_owned(), Some(record))], now())
            .unwrap();
        assert_eq!(is_whole(&emptied, "acme/web").len(), formers, "{at:?}");
    }
}

#[test]
fn whoever_a_candidate_is_for_may_have_used_up_what_it_counts_together() {
    let mut changing = Changing::begin("{id: p, scope: app, limit: 5, window: 1h}");
    let candidate = "{id: p, scope: org, limit: 5, window: 1h}";
    changing.roll_out(100, candidate);
    let rollout = changing.set.rollout.clone();
    let later = instant("2024-07-15T14:00:00Z");
    let same = PolicySet {
        policies: changing.set.policies.clone(),
        rollout,
        ..PolicySet::default()
    };
    let snapshot = changing.put(same, later);
    let asked = request("acme/web");
    let stack = resolved(&snapshot, &asked, later);
    let own = stack.limits.iter().position(|limit| &*limit.id == "p").unwrap();
    let former = stack.formers.iter().find(|former| former.level == own).unwrap();
    assert!(!former.whole);
    assert_eq!(former.left, now(), "it was chosen then, and only then");
}

#[test]
fn what_is_written_down_of_them_is_read_again() {
    let policies = [
        "{id: p, limit: 5, window: 90s}",
        "{id: p, limit: 5, burst: 9, window: 1m, algorithm: leaky_bucket, scope: [org, app], unit: tokens}",
        "{id: p, limit: 5, window: 1h, algorithm: fixed_window, anchor: first, scope: ip, ipv4Prefix: 24, ipv6Prefix: 48}",
        "{id: p, limit: 5, window: 1h, algorithm: fixed_window, anchor: epoch, endpointPattern: 'POST /v1/{id}/*'}",
        "{id: p, limit: 5, window: 1h, algorithm: sliding_window_log, requiredScope: write}",
        "{id: p, limit: 5, window: 1h, algorithm: sliding_window_counter, match: {region: eu-*, kind: a}}",
        "{id: p, limit: 5, window: month, timezone: Europe/Berlin, scope: 'descriptor:region'}",
        "{id: p, limit: 5, window: billing_month, timezone: org, counter: c}",
    ];
    let mut changing = Changing::begin(policies[0]);
    for policy in &policies[1..] {
        changing.change(policy);
    }
    let last = changing.change("{id: p, limit: 1, window: 1s}");
    let document = changing.eras.document().unwrap();
    let document: Value = serde_json::from_str(&document.to_string()).unwrap();
    let read = Eras::read(&document);
    assert_eq!(read.document(), Some(document));
    let mut same = set("{id: p, limit: 1, window: 1s}");
    read.mark(&mut same);
    let same = Snapshot::compile(&same, SEED, None).unwrap();
    let asked = request("acme/web ip=192.0.2.7 region=eu-1 kind=a");
    let of = |snapshot: &Snapshot| -> Vec<String> {
        let stack = resolved(snapshot, &asked, now());
        let key = stack.levels[0].key;
        let formers = stack.formers.iter();
        let formers = formers.map(|one| format!("{key:?} {:?} {:?}", one.key, one.rule));
        formers.collect()
    };
    assert_eq!(of(&last).len(), policies.len());
    assert_eq!(of(&same), of(&last));
}

#[test]
fn counters_that_nodes_share_have_the_eras_that_all_nodes_number_alike() {
    let name = |snapshot: &Snapshot| {
        let asked = request("acme");
        resolved(snapshot, &asked, now()).name(0, &asked)
    };
    let mut changing = Changing::begin(HOUR);
    let first = name(&changing.change(HOUR));
    changing.change(MINUTE);
    assert_ne!(name(&changing.change(HOUR)), first);
    // A file's are numbered by the clock of each process.
    let mut set = set(HOUR);
    changing.eras.mark_here(&mut set);
    assert_eq!(name(&Snapshot::compile(&set, SEED, None).unwrap()), first);
}
