//! Orgs whose records lie in an archive are decided as those whose records are held.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_catalog::Request;
use tollgate_catalog::model::{KeptOverride, Org, OrgRecord};
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::snapshot::{Archive, Limit, Snapshot, Span};
use tollgate_core::{IdHash, KeySeed, Mode, Timestamp};

const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);
const ORGS: usize = 50;
const SEED: KeySeed = KeySeed::new(5, 6);

/// An org's place is its number, and its record can be made from that.
#[derive(Default)]
struct Numbers {
    broken: AtomicBool,
    read: AtomicUsize,
}

impl Archive for Numbers {
    fn record(&self, span: Span) -> io::Result<OrgRecord> {
        self.read.fetch_add(1, Ordering::Relaxed);
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(record(span.at, 100 + span.at))
    }

    fn record_mentioning(&self, span: Span, word: &str) -> io::Result<Option<OrgRecord>> {
        let mentioned = span.at.is_multiple_of(2) && word == "Pro";
        mentioned.then(|| self.record(span)).transpose()
    }
}

fn record(number: u64, limit: u64) -> OrgRecord {
    let id = format!("org-{number}");
    let json = format!(r#"{{"orgId":"{id}","policyId":"rate","limit":{limit}}}"#);
    let tier = if number.is_multiple_of(2) {
        "Pro"
    } else {
        "default"
    };
    OrgRecord {
        overrides: vec![KeptOverride::Json(json.into())],
        ..OrgRecord::plain(Org {
            tier: tier.to_owned(),
            ..Org::named(&id)
        })
    }
}

fn policies() -> Snapshot {
    let text = "tiers: [{tier: Pro}]
orgs: [{orgId: of-file, tier: Pro}, {orgId: org-7}]
policies: [{id: rate, algorithm: fixed_window, limit: 7, window: 1m}]";
    Snapshot::compile(&parse_policy_set(text).unwrap(), SEED, None).unwrap()
}

fn filed() -> (Snapshot, Arc<Numbers>) {
    let archive = Arc::new(Numbers::default());
    let orgs: Vec<(IdHash, Span)> = (0..ORGS as u64)
        .map(|at| (SEED.id(format!("org-{at}").as_bytes()), Span { at, bytes: 1 }))
        .collect();
    (policies().with_archive(archive.clone(), orgs), archive)
}

/// The limit that an org has, or nothing if that can't be said.
fn limit(snapshot: &Snapshot, org: &str) -> Option<u64> {
    let request = Request {
        org: Some(org),
        ..Request::new()
    };
    let mut stack = snapshot.blank();
    snapshot.resolve(&request, NOW, &mut stack);
    (!stack.unreadable).then(|| stack.limits[0].rule.limit)
}

#[test]
fn a_filed_org_is_read_once_when_it_is_asked_for() {
    let (snapshot, archive) = filed();
    assert_eq!(snapshot.org_count(), ORGS + 1);
    assert_eq!(archive.read.load(Ordering::Relaxed), 0);
    for _ in 0..2 {
        for number in 0..ORGS as u64 {
            assert_eq!(limit(&snapshot, &format!("org-{number}")), Some(100 + number));
        }
    }
    assert_eq!(archive.read.load(Ordering::Relaxed), ORGS);
    // Those of the file are compiled from the start.
    assert_eq!(snapshot.orgs_in_use(), ORGS + 1);
    assert_eq!(
        (limit(&snapshot, "of-file"), limit(&snapshot, "nobody")),
        (Some(7), Some(7))
    );
}

#[test]
fn the_record_of_another_org_is_not_taken() {
    let archive = Arc::new(Numbers::default());
    let orgs = vec![(SEED.id(b"org-a"), Span { at: 3, bytes: 1 })];
    let snapshot = policies().with_archive(archive, orgs);
    assert_eq!(limit(&snapshot, "org-a"), Some(7));
    assert_eq!(limit(&snapshot, "org-3"), Some(7));
}

#[test]
fn threads_that_ask_at_once_find_the_same_and_once_settled_nothing_is_read() {
    let (snapshot, archive) = filed();
    assert!(snapshot.is_settled());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let snapshot = &snapshot;
            scope.spawn(move || {
                for number in (0..ORGS as u64).map(|number| (number * 7 + thread) % ORGS as u64) {
                    assert_eq!(limit(snapshot, &format!("org-{number}")), Some(100 + number));
                }
            });
        }
    });
    assert_eq!(snapshot.orgs_in_use(), ORGS + 1);
    assert!(!snapshot.is_settled());
    let settled = snapshot.settled();
    let reads = archive.read.load(Ordering::Relaxed);
    for number in 0..ORGS as u64 {
        assert_eq!(limit(&settled, &format!("org-{number}")), Some(100 + number));
    }
    assert!(settled.is_settled());
    assert_eq!(archive.read.load(Ordering::Relaxed), reads);
    assert_eq!((settled.org_count(), settled.orgs_in_use()), (ORGS + 1, ORGS + 1));
}

#[test]
fn what_is_changed_leaves_the_archive() {
    let (snapshot, archive) = filed();
    let changes = vec![
        ("org-3".to_owned(), Some(record(3, 9))),
        ("org-4".to_owned(), None),
        ("org-new".to_owned(), Some(record(1_000, 11))),
    ];
    let next = snapshot.with_orgs(changes, NOW).unwrap();
    let seen = archive.read.load(Ordering::Relaxed);
    assert_eq!(limit(&next, "org-3"), Some(9));
    assert_eq!(limit(&next, "org-4"), Some(7));
    assert_eq!(archive.read.load(Ordering::Relaxed), seen);
    assert_eq!(limit(&next, "org-5"), Some(105));
    assert_eq!(limit(&snapshot, "org-3"), Some(103));
}

#[test]
fn a_cooled_snapshot_reads_again_what_is_asked_for() {
    let (snapshot, archive) = filed();
    let all = |snapshot: &Snapshot| -> Vec<_> {
        let orgs = 0..ORGS as u64;
        orgs.map(|number| limit(snapshot, &format!("org-{number}")))
            .collect()
    };
    let before = all(&snapshot);
    let cooled = snapshot.cooled();
    assert_eq!(cooled.orgs_in_use(), 0);
    assert_eq!(all(&cooled), before);
    assert_eq!(archive.read.load(Ordering::Relaxed), 2 * ORGS);
    // What does not concern them leaves them compiled.
    let reads = archive.read.load(Ordering::Relaxed);
    let text = "tiers: [{tier: Pro}]\npolicies: [{id: rate, algorithm: fixed_window, limit: 7, window: 1m}]";
    let same = cooled.with_common(&parse_policy_set(text).unwrap(), NOW).unwrap();
    assert_eq!(all(&same), before);
    assert_eq!(archive.read.load(Ordering::Relaxed), reads);
    let text = "policies: [{id: rate, algorithm: fixed_window, limit: 8, window: 1m}]";
    let other = cooled.with_common(&parse_policy_set(text).unwrap(), NOW).unwrap();
    assert_eq!(all(&other), before);
}

#[test]
fn a_change_of_what_an_override_sets_itself_does_not_concern_it() {
    let (snapshot, archive) = filed();
    let after = |snapshot: &Snapshot, values: &str| {
        let text = format!(
            "tiers: [{{tier: Pro}}]\npolicies: [{{id: rate, algorithm: fixed_window, {values}, window: 1m}}]"
        );
        snapshot
            .with_common(&parse_policy_set(&text).unwrap(), NOW)
            .unwrap()
    };
    // Which limit it is, and what that says.
    let decided = |snapshot: &Snapshot| {
        let request = Request {
            org: Some("org-1"),
            ..Request::new()
        };
        let mut stack = snapshot.blank();
        snapshot.resolve(&request, NOW, &mut stack);
        let limit: &Limit = stack.limits[0];
        (std::ptr::from_ref(limit), limit.rule.limit, limit.mode)
    };
    let snapshot = after(&snapshot, "limit: 7");
    let (first, ..) = decided(&snapshot);
    let changed = after(&snapshot, "limit: 8");
    assert_eq!(decided(&changed), (first, 101, Some(Mode::Enforce)));
    assert_eq!(limit(&changed, "nobody"), Some(8));
    let shadowed = after(&changed, "limit: 8, mode: shadow");
    let (other, ..) = decided(&shadowed);
    assert_eq!(decided(&shadowed), (other, 101, Some(Mode::Shadow)));
    // Both are still there.
    assert_ne!(first, other);
    assert_eq!(decided(&changed), (first, 101, Some(Mode::Enforce)));
    // Neither that nor a change of more than values reads it again.
    let text = "policies: [{id: rate, algorithm: fixed_window, limit: 8, window: 1h}]";
    let another = shadowed
        .with_common(&parse_policy_set(text).unwrap(), NOW)
        .unwrap();
    assert_eq!(limit(&another, "org-1"), Some(101));
    assert_eq!(archive.read.load(Ordering::Relaxed), 1);
}

#[test]
fn an_org_that_cant_be_read_is_said_to_be_so_until_it_can() {
    let (snapshot, archive) = filed();
    assert_eq!(limit(&snapshot, "org-1"), Some(101));
    archive.broken.store(true, Ordering::Relaxed);
    assert_eq!(limit(&snapshot, "org-1"), Some(101));
    assert_eq!(limit(&snapshot, "org-2"), None);
    assert_eq!(limit(&snapshot, "nobody"), Some(7));
    archive.broken.store(false, Ordering::Relaxed);
    assert_eq!(limit(&snapshot, "org-2"), Some(102));
}

#[test]
fn records_are_found_by_a_word_wherever_they_lie() {
    let (snapshot, archive) = filed();
    let snapshot = snapshot
        .with_orgs(vec![("org-2".to_owned(), Some(record(2, 5)))], NOW)
        .unwrap();
    let pro = |snapshot: &Snapshot| -> io::Result<usize> {
        let records = snapshot.records_mentioning("Pro");
        let pro = records.filter(|record| record.as_ref().map_or(true, |record| record.org.tier == "Pro"));
        pro.collect::<io::Result<Vec<_>>>().map(|all| all.len())
    };
    assert_eq!(pro(&snapshot).unwrap(), 26);
    archive.broken.store(true, Ordering::Relaxed);
    assert!(pro(&snapshot).is_err());
}
