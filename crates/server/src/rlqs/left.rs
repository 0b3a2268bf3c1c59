//! What Envoys held of buckets when their streams broke. It stays charged; an Envoy that comes back reports what it used of it on
//! its next stream, and that is not charged again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::name::Name;

/// The most that is remembered.
const MOST: usize = 100_000;

/// What was left behind, by bucket: how much, and until when it may be reported.
#[derive(Default)]
pub(super) struct Left(Mutex<HashMap<Name, (u64, u64)>>);

impl Left {
    /// Notes what is left of a bucket, if there is room.
    pub(super) fn leave(&self, name: &Name, amount: u64, until: u64, now: u64) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if left.len() >= MOST {
            left.retain(|_, (_, until)| *until > now);
        }
        if amount == 0 || (left.len() >= MOST && !left.contains_key(name)) {
            return;
        }
        let (known, last) = left.entry(name.clone()).or_default();
        if *last <= now {
            *known = 0;
        }
        *known += amount;
        *last = until.max(*last);
    }

    /// Takes off what was reported as used, and says how much of it is accounted for.
    pub(super) fn take(&self, name: &Name, used: u64, now: u64) -> u64 {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((known, until)) = left.get_mut(name) else {
            return 0;
        };
        let taken = if *until > now { used.min(*known) } else { 0 };
        *known -= taken;
        if *known == 0 || *until <= now {
            left.remove(name);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_accounts_for_as_much_use_and_no_more() {
        let (left, name) = (Left::default(), Name::new("edge", &[("org", "acme")]));
        left.leave(&name, 10, 100, 0);
        left.leave(&name, 5, 200, 50);
        assert_eq!(left.take(&name, 12, 150), 12);
        assert_eq!(left.take(&name, 12, 150), 3);
        assert_eq!(left.take(&name, 12, 150), 0);
        left.leave(&name, 10, 300, 200);
        assert_eq!(left.take(&name, 1, 300), 0, "it is too late");
    }
}
