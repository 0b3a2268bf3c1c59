//! What a policy is when a field is left out.

use tollgate_catalog::model::{Accuracy, FailMode, Zone};
use tollgate_core::{Algorithm, Anchor, Mode, Period};

use crate::common::snapshot;

#[test]
fn a_rate_is_an_enforced_bucket_of_its_orgs_and_counted_locally_without_a_store() {
    let snapshot = snapshot("policies:\n  - {id: p, limit: 5, window: 1m}\n");
    let limit = &snapshot.limits()[0];
    assert_eq!(limit.rule.algorithm, Algorithm::TokenBucket);
    assert_eq!(limit.rule.capacity, 5, "the burst is the limit");
    assert_eq!(limit.mode, Some(Mode::Enforce));
    assert_eq!(&*limit.scope_name, "org");
    assert!(limit.pattern.is_any());
    assert_eq!(limit.fail_mode, FailMode::Local);
    assert_eq!(limit.accuracy, Accuracy::Within(500));
    assert!(limit.expose);
    assert_eq!(limit.reset_jitter_ns, 0);
    assert_eq!(limit.unit, None);
}

#[test]
fn a_calendar_window_makes_a_quota_that_fails_closed_and_resets_at_midnight_utc() {
    let snapshot = snapshot("policies:\n  - {id: p, limit: 5, window: month}\n");
    let limit = &snapshot.limits()[0];
    assert_eq!(limit.rule.algorithm, Algorithm::Quota(Period::Month));
    assert_eq!(limit.fail_mode, FailMode::Closed);
    assert_eq!(limit.zone, Zone::Fixed(jiff::tz::TimeZone::UTC));
}

#[test]
fn fixed_windows_begin_at_multiples_of_the_window() {
    let snapshot = snapshot("policies:\n  - {id: p, limit: 5, window: 1m, algorithm: fixed_window}\n");
    assert_eq!(
        snapshot.limits()[0].rule.algorithm,
        Algorithm::FixedWindow(Anchor::Epoch)
    );
}

#[test]
fn only_global_limits_are_hidden_unless_it_is_said() {
    let snapshot = snapshot(
        "policies:\n  - {id: a, scope: global, limit: 5, window: 1m}\n  - {id: b, scope: global, limit: 5, window: 1m, expose: true}\n  \
         - {id: c, scope: ip, limit: 5, window: 1m}\n  - {id: d, scope: ip, limit: 5, window: 1m, expose: false}\n",
    );
    let exposed: Vec<bool> = snapshot.limits().iter().map(|limit| limit.expose).collect();
    assert_eq!(exposed, [false, true, true, false]);
}
