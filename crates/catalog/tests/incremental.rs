//! A snapshot that was changed step by step resolves as one that was compiled at once.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_catalog::Request;
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord, PolicySet, Rollout, RolloutState, Share};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::route::Endpoint;
use tollgate_catalog::snapshot::{Archive, Snapshot, Span};
use tollgate_core::{KeySeed, Timestamp};

const SEED: KeySeed = KeySeed::new(5, 6);
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);
const TIERS: [&str; 3] = ["default", "Pro", "Gold"];

#[derive(Debug, Clone)]
enum Step {
    /// The limits of the policies.
    Policies(u64, u64),
    /// A rollout's percentage and the limit it tries, or none.
    Rollout(Option<(u8, u64)>),
    /// An org with a tier and overrides: app, limit, and whether for a route of its own.
    Org(usize, usize, Vec<(usize, u64, bool)>),
    Gone(usize),
    /// Somebody asks for an org, so that it is compiled.
    Asked(usize),
    Settled,
    Cooled,
}

fn step() -> impl Strategy<Value = Step> {
    let overrides = prop::collection::vec((0..3_usize, 1..50_u64, any::<bool>()), 0..4);
    prop_oneof![
        2 => (1..100_u64, 1..100_u64).prop_map(|(pro, gold)| Step::Policies(pro, gold)),
        2 => prop::option::of((0..=100_u8, 1..100_u64)).prop_map(Step::Rollout),
        6 => (0..60_usize, 0..3_usize, overrides).prop_map(|(org, tier, all)| Step::Org(org, tier, all)),
        1 => (0..60_usize).prop_map(Step::Gone),
        3 => (0..60_usize).prop_map(Step::Asked),
        1 => Just(Step::Settled),
        1 => Just(Step::Cooled),
    ]
}

/// The candidate has other limits of two policies, on a route of its own, and lacks one.
fn set(pro: u64, gold: u64, rollout: Option<(u8, u64)>) -> PolicySet {
    let text = format!(
        "tiers: [{{tier: Pro}}, {{tier: Gold}}]
policies:
  - {{id: app, scope: app, algorithm: fixed_window, limit: {pro}, window: 1m}}
  - {{id: pro, orgTier: Pro, algorithm: fixed_window, limit: {pro}, window: 1m}}
  - {{id: gold, orgTier: Gold, endpointPattern: POST /a, algorithm: fixed_window, limit: {gold}, window: 1h}}"
    );
    let rollout = rollout.map(|(percent, limit)| {
        let text = format!(
            "policies:
  - {{id: app, scope: app, algorithm: fixed_window, limit: {limit}, window: 1m}}
  - {{id: new, endpointPattern: GET /own, limit: {limit}, window: 1m}}"
        );
        Rollout {
            share: Share {
                rollout: "trial".to_owned(),
                percent,
            },
            policies: parse_policy_set(&text).unwrap().policies,
            removes: vec!["pro".to_owned()],
            state: RolloutState::Open,
            chosen: Timestamp::EPOCH,
        }
    });
    PolicySet {
        rollout,
        ..parse_policy_set(&text).unwrap()
    }
}

/// The first orgs lie in an archive at the start.
const FILED: usize = 20;

struct First;

impl First {
    fn record(org: usize) -> OrgRecord {
        record(org, org % 3, &[(org % 2, 30 + org as u64, org.is_multiple_of(5))])
    }
}

impl Archive for First {
    fn record(&self, span: Span) -> io::Result<OrgRecord> {
        Ok(Self::record(usize::try_from(span.at).unwrap()))
    }

    fn record_mentioning(&self, span: Span, _: &str) -> io::Result<Option<OrgRecord>> {
        Archive::record(self, span).map(Some)
    }
}

fn name(org: usize) -> String {
    format!("org-{org}")
}

fn record(org: usize, tier: usize, overrides: &[(usize, u64, bool)]) -> OrgRecord {
    let overrides = overrides.iter().map(|(app, limit, route)| {
        let route = if *route {
            r#","endpointPattern":"GET /own""#
        } else {
            ""
        };
        // Some leave the limit as it is, and so depend on what it becomes.
        let value = if limit % 3 == 0 {
            r#""mode":"soft""#.to_owned()
        } else {
            format!(r#""limit":{limit}"#)
        };
        let json = format!(
            r#"{{"orgId":"{}","appId":"app-{app}","policyId":"app",{value}{route}}}"#,
            name(org)
        );
        KeptOverride::Json(json.into())
    });
    OrgRecord {
        overrides: overrides.collect(),
        ..OrgRecord::plain(Org {
            tier: TIERS[tier].to_owned(),
            ..Org::named(&name(org))
        })
    }
}

/// What a request of an org faces: the limits with their numbers and the counters they mean.
fn faces(snapshot: &Snapshot, org: &str, app: &str, endpoint: &str) -> Vec<String> {
    let request = Request {
        org: Some(org),
        app: Some(app),
        endpoint: Some(Endpoint::parse(endpoint).unwrap()),
        ..Request::new()
    };
    let mut stack = snapshot.blank();
    snapshot.resolve(&request, NOW, &mut stack);
    let levels = stack.levels.iter().zip(&stack.limits);
    levels
        .map(|(level, limit)| format!("{} {} {:?}", limit.id, limit.rule.limit, level.key))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_step_by_step_is_compiled_at_once(steps in prop::collection::vec(step(), 1..120)) {
        let (mut pro, mut gold, mut rollout) = (10, 20, None);
        let mut orgs: BTreeMap<usize, OrgRecord> = (0..FILED).map(|org| (org, First::record(org))).collect();
        let filed = (0..FILED).map(|org| (SEED.id(name(org).as_bytes()), Span { at: org as u64, bytes: 1 }));
        let snapshot = Snapshot::compile(&set(pro, gold, None), SEED, None).unwrap();
        let mut snapshot = snapshot.with_archive(Arc::new(First), filed.collect());
        for step in steps {
            match step {
                Step::Policies(new_pro, new_gold) => {
                    (pro, gold) = (new_pro, new_gold);
                    snapshot = snapshot.with_common(&set(pro, gold, rollout), NOW).unwrap();
                }
                Step::Rollout(next) => {
                    rollout = next;
                    snapshot = snapshot.with_common(&set(pro, gold, rollout), NOW).unwrap();
                }
                Step::Org(org, tier, overrides) => {
                    let record = record(org, tier, &overrides);
                    snapshot = snapshot.with_orgs(vec![(name(org), Some(record.clone()))], NOW).unwrap();
                    orgs.insert(org, record);
                }
                Step::Gone(org) => {
                    snapshot = snapshot.with_orgs(vec![(name(org), None)], NOW).unwrap();
                    orgs.remove(&org);
                }
                Step::Settled => snapshot = snapshot.settled(),
                Step::Cooled => snapshot = snapshot.cooled(),
                Step::Asked(org) => drop(faces(&snapshot, &name(org), "app-0", "GET /own")),
            }
            prop_assert_eq!(snapshot.org_count(), orgs.len());
        }
        let mut records: Vec<String> = snapshot.records_mentioning("").map(|record| record.unwrap().org.id.clone()).collect();
        records.sort();
        let mut expected: Vec<String> = orgs.keys().map(|org| name(*org)).collect();
        expected.sort();
        prop_assert_eq!(records, expected);
        let once = Snapshot::compile(&set(pro, gold, rollout), SEED, None).unwrap();
        let once = once.with_idle_orgs(orgs.into_values().collect());
        for org in 0..60 {
            for app in ["app-0", "app-1", "app-2"] {
                for endpoint in ["GET /own", "POST /a"] {
                    let expected = faces(&once, &name(org), app, endpoint);
                    prop_assert_eq!(faces(&snapshot, &name(org), app, endpoint), expected, "{} {} {}", org, app, endpoint);
                }
            }
        }
    }
}
