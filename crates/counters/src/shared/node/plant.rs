//! Mistakes in a node that the simulator plants, to see whether they are found.

use super::Node;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A lease ends so long after it was heard of, not after it was asked for.
    DeadlineFromReceipt,
    /// Nobody looks whether a lease has ended.
    NeverEnds,
    /// The clock is read before tokens are spent, and not once more when they are.
    CheckedBeforeOnly,
    /// Tokens that were kept for a request go back into whichever lease there is now.
    PutBackAnywhere,
    /// A counter that counted a part of what another counts from now on is taken for all that was before.
    PartsAreWhole,
    /// What was let through without the store is told it again and again.
    OwedAgain,
    /// What was let through without the store is charged without a word of what its counter replaces.
    SettlesAlone,
    /// What each node let through without the store drains at the whole rate, not at its share.
    DrainsWhole,
}

impl<W> Node<W> {
    /// Makes a mistake from now on. Without the feature `plant` nothing comes of it.
    pub fn plant(&mut self, bug: Bug) {
        self.bug = Some(bug);
    }

    /// Whether it makes this mistake.
    pub(super) fn has(&self, bug: Bug) -> bool {
        cfg!(feature = "plant") && self.bug == Some(bug)
    }
}
