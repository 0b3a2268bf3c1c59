//! Epochs: a new one begins whenever what all orgs have in common is changed.
//!
//! Most changes are of a few numbers, and concern only the orgs that have overrides of those very policies. What is
//! compiled of the others stays right, which is found out by going back from one epoch to the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far back it is looked. Who was not asked for in so many epochs is compiled anew.
const REMEMBERED: usize = 256;

/// No two snapshots have the same epoch unless one was made from the other, not even one that is only tried.
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Clone)]
struct Epoch {
    number: u64,
    /// The policies whose values are others than before; `None` if more than that has changed.
    changed: Option<Arc<[u32]>>,
}

/// An epoch, and those it came from.
#[derive(Clone)]
pub(super) struct Epochs(Arc<[Epoch]>);

impl Epochs {
    /// The first one.
    pub(super) fn begin() -> Self {
        Self(Arc::new([Epoch::new(None)]))
    }

    /// The next one, in which only these policies have other values; `None` if more has changed.
    pub(super) fn next(&self, changed: Option<Vec<u32>>) -> Self {
        let before = &self.0[self.0.len().saturating_sub(REMEMBERED)..];
        let next = Epoch::new(changed.map(Into::into));
        Self(before.iter().cloned().chain([next]).collect())
    }

    /// Its number.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.0.last().map_or(0, |epoch| epoch.number)
    }

    /// Whether what was compiled in an earlier epoch, from some policies, is still right.
    pub(super) fn still_hold(&self, since: u64, from: &[u32]) -> bool {
        for epoch in self.0.iter().rev() {
            if epoch.number == since {
                return true;
            }
            match &epoch.changed {
                Some(changed) if !changed.iter().any(|policy| from.contains(policy)) => {}
                _ => return false,
            }
        }
        false
    }
}

impl Epoch {
    fn new(changed: Option<Arc<[u32]>>) -> Self {
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_concern_an_org_leaves_it_compiled() {
        let first = Epochs::begin();
        let second = first.next(Some(vec![1]));
        let third = second.next(Some(vec![2]));
        assert!(third.still_hold(third.number(), &[1, 2]));
        assert!(third.still_hold(second.number(), &[1]));
        assert!(!third.still_hold(second.number(), &[0, 2]));
        assert!(third.still_hold(first.number(), &[0]));
        assert!(!third.still_hold(first.number(), &[1]));
        let fourth = third.next(None);
        assert!(!fourth.still_hold(third.number(), &[]));
        assert!(fourth.next(Some(Vec::new())).still_hold(fourth.number(), &[1]));
    }

    #[test]
    fn what_was_tried_and_dropped_holds_nowhere_else() {
        let first = Epochs::begin();
        let tried = first.next(Some(vec![1]));
        let second = first.next(Some(vec![2]));
        assert!(!second.still_hold(tried.number(), &[]));
        assert!(!first.still_hold(second.number(), &[]));
    }

    #[test]
    fn the_past_is_forgotten_in_the_end() {
        let first = Epochs::begin();
        let mut last = first.clone();
        for _ in 0..=REMEMBERED {
            last = last.next(Some(Vec::new()));
        }
        assert!(!last.still_hold(first.number(), &[]));
        assert_eq!(last.0.len(), REMEMBERED + 1);
    }
}
