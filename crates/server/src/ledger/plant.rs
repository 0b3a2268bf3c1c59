//! Mistakes that the model's tests plant, to see whether they are found. Outside of tests there are none.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// A cell whose account was forgotten is owed to whatever period is counted next.
    OldCellOwed,
    /// What a fallback lets through of a counter that nobody asked for is told to nobody.
    FallbackUntold,
    /// A node that has nothing to say does not say that it is alive.
    QuietNodesGone,
    /// Limits, zones and anchors stay what they were when an account was made.
    TermsStay,
    /// What was let through of counters that the ledger never heard of is forgotten by a stop while it is unavailable.
    StopForgets,
}

/// Whether a mistake is made.
#[cfg(not(test))]
pub(super) const fn is_planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    /// The mistake that this thread's nodes make.
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether a mistake is made.
#[cfg(test)]
pub(super) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Has this thread's nodes make a mistake, or none.
#[cfg(test)]
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
