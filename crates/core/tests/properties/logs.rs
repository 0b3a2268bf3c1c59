//! What only long logs show.

use tollgate_core::{Algorithm, Log, MAX_LIMIT, MAX_LOG_LIMIT, Rule, Timestamp};

const SECOND: u64 = 1_000_000_000;

/// The sum of all that a soft log ever counted outgrows 64 bits; what it counts in a window must not stop.
#[test]
fn a_soft_log_counts_on_when_its_total_outgrows_its_word() {
    let rule = Rule::new(Algorithm::SlidingLog, 10, None, SECOND);
    let mut log = Log::default();
    for second in 0..40_000 {
        let now = Timestamp::from_nanos(second * SECOND);
        let summary = log.summary(&rule, 1, now);
        assert_eq!(rule.remaining(summary, now), 10, "after {second} seconds");
        log.push(MAX_LIMIT, now);
        let summary = log.summary(&rule, 1, now);
        assert_eq!(rule.remaining(summary, now), 0, "after {second} seconds");
        assert_eq!(rule.wait(summary, 1, now), Some(SECOND.into()));
    }
}

/// A full log whose entries have all left begins anew, to the nanosecond: none of the old count is carried
/// over by the bound on entries.
#[test]
fn a_full_log_forgets_exactly() {
    let rule = Rule::new(Algorithm::SlidingLog, MAX_LOG_LIMIT, None, SECOND);
    let mut log = Log::default();
    let take = |log: &mut Log, cost: u64, at: u64| {
        let now = Timestamp::from_nanos(at);
        let summary = log.summary(&rule, cost, now);
        let fits = rule.fits(summary, cost, now);
        if fits {
            log.push(cost, now);
        }
        fits
    };
    for round in 0..3 {
        let start = round * 3 * SECOND;
        for entry in 0..MAX_LOG_LIMIT {
            assert!(take(&mut log, 1, start + entry), "entry {entry} of round {round}");
        }
        assert!(!take(&mut log, 1, start + SECOND - 1));
        assert!(take(&mut log, 1, start + SECOND));
        assert!(!take(&mut log, 1, start + SECOND));
        assert!(take(&mut log, 1, start + SECOND + 1));
        assert!(take(&mut log, MAX_LOG_LIMIT - 2, start + SECOND + MAX_LOG_LIMIT));
        assert!(!take(&mut log, 1, start + 2 * SECOND - 1));
        // What is kept stays within what the limit allows at any time, give or take the newest.
        assert!(log.len() as u64 <= MAX_LOG_LIMIT + 1);
    }
}
