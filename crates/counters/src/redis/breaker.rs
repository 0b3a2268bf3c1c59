//! When to stop sending calls to a primary.
//!
//! Every call that is sent to a dead server costs a request its whole deadline, so after a while of silence none is
//! sent. A server that is only slow does not fall silent: its late replies still bring grants.

use std::time::{Duration, Instant};

use super::trouble::Trouble;

/// Whether calls are sent.
#[derive(Debug)]
pub(super) struct Breaker {
    /// How long nothing at all may be heard while a reply is due.
    patience: Duration,
    /// Since when nothing has been heard, though a reply is overdue.
    silent: Option<Instant>,
    open: Option<Open>,
}

/// Why and since when no calls are sent.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) since: Instant,
    pub(super) trouble: Trouble,
}

impl Breaker {
    /// Longer than a fork of the server or someone's slow command usually takes, and shorter than what people notice.
    const PATIENCE: Duration = Duration::from_millis(20);

    /// A breaker for requests that wait so long for a reply: a server is not silent while somebody still waits for it.
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            patience: Self::PATIENCE.max(deadline),
            silent: None,
            open: None,
        }
    }

    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) const fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    /// Nothing is wrong, nor suspected.
    pub(super) const fn is_calm(&self) -> bool {
        self.silent.is_none() && self.open.is_none()
    }

    /// A reply to something sent then is overdue; whether anything else was heard since tells a slow server from a
    /// silent one. True if no more calls are sent from now on.
    pub(super) fn overdue(&mut self, sent: Instant, heard: bool, now: Instant) -> bool {
        let silent = *self.silent.get_or_insert(if heard { now } else { sent });
        now.saturating_duration_since(silent) >= self.patience && self.fail(Trouble::TimedOut, now)
    }

    /// The server can't be used, for certain. True if calls were sent until now, or nothing was known but that it is
    /// silent.
    pub(super) fn fail(&mut self, trouble: Trouble, now: Instant) -> bool {
        let before = self.open.take();
        let known = |open: &Open| open.trouble != Trouble::TimedOut || trouble == Trouble::TimedOut;
        let news = !before.as_ref().is_some_and(known);
        self.open = Some(Open {
            since: before.map_or(now, |open| open.since),
            trouble,
        });
        news
    }

    /// A reply came that a working server gives. Tells for how long no calls were sent, if that is over now.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Duration> {
        self.silent = None;
        let open = self.open.take()?;
        Some(now.saturating_duration_since(open.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn opens_after_silence_only() {
        let start = Instant::now();
        let mut breaker = Breaker::new(2 * MS);
        for ms in 0..18 {
            assert!(!breaker.overdue(start + ms * MS, false, start + (ms + 2) * MS));
        }
        assert!(breaker.open().is_none() && !breaker.is_calm());
        assert_eq!(breaker.answered(start + 19 * MS), None);
        assert!(breaker.is_calm());
        assert!(
            !breaker.overdue(start + 20 * MS, false, start + 22 * MS),
            "silence begins anew"
        );
        assert!(breaker.overdue(start + 38 * MS, false, start + 40 * MS));
        assert!(
            !breaker.overdue(start + 39 * MS, false, start + 41 * MS),
            "it is said once"
        );
        assert_eq!(breaker.answered(start + 70 * MS), Some(30 * MS));
        assert!(breaker.is_calm());
    }

    #[test]
    fn a_single_question_without_any_reply_is_enough() {
        let start = Instant::now();
        let mut breaker = Breaker::new(2 * MS);
        assert!(breaker.overdue(start, false, start + breaker.patience()));
    }

    #[test]
    fn a_slow_server_is_not_a_silent_one() {
        let start = Instant::now();
        let mut breaker = Breaker::new(2 * MS);
        for ms in (0..1000).step_by(15) {
            // What is due has been so for long, but something else has come meanwhile.
            assert!(!breaker.overdue(start, true, start + (ms + 14) * MS));
            assert_eq!(breaker.answered(start + (ms + 15) * MS), None);
        }
        assert!(!breaker.overdue(start, true, start + 1020 * MS));
        assert!(
            breaker.overdue(start, false, start + 1040 * MS),
            "it has fallen silent"
        );
    }

    #[test]
    fn is_as_patient_as_the_requests_that_wait() {
        let start = Instant::now();
        let mut breaker = Breaker::new(100 * MS);
        assert!(!breaker.overdue(start, false, start + 99 * MS));
        assert!(breaker.overdue(start, false, start + 100 * MS));
    }

    #[test]
    fn failures_open_at_once_and_the_first_one_dates_it() {
        let start = Instant::now();
        let mut breaker = Breaker::new(2 * MS);
        assert!(breaker.fail(Trouble::Replica, start));
        assert!(!breaker.fail(Trouble::TimedOut, start + MS));
        assert!(!breaker.fail(Trouble::TimedOut, start + MS));
        assert!(
            breaker.fail(Trouble::Replica, start + 2 * MS),
            "more is known now"
        );
        assert_eq!(breaker.open().map(|open| open.since), Some(start));
        assert_eq!(breaker.answered(start + 3 * MS), Some(3 * MS));
    }
}
