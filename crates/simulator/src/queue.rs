//! Events in the order of their time.

use std::cmp::Ordering;

/// An event and when it is due; of two that are due at once the one that was put in first comes first.
#[derive(Debug)]
pub(crate) struct Queued<E> {
    pub(crate) at: u64,
    pub(crate) order: u64,
    pub(crate) event: E,
}

impl<E> Ord for Queued<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The greatest comes out first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Queued<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Queued<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Queued<E> {}
