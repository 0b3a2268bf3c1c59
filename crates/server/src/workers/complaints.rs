//! Complaints that would be repeated for as long as something lasts: said once a second at most.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

/// When somebody last complained, and how often there was reason to since.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    /// One more reason. Says how many went unsaid before, if it is time to complain.
    pub(super) fn are_due(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now.duration_since(said) < PAUSE) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_then_one_a_second() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let mut at = |millis| complaints.are_due(start + Duration::from_millis(millis));
        assert_eq!([at(0), at(500), at(999)], [Some(0), None, None]);
        assert_eq!([at(1000), at(1001), at(60_000)], [Some(2), None, Some(1)]);
    }
}
