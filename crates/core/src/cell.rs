//! What is stored of one counter.

/// Three words whose meaning belongs to the counter's algorithm. A counter that was never touched is all
/// zeros, so an absent one and a new one are the same thing.
///
/// | algorithm | words |
/// |---|---|
/// | token and leaky bucket | debt (low, high), in units of 1 / window token; the time it was true |
/// | fixed window, quota | the window's end; count |
/// | sliding counter | the current window's end; previous count; current count |
/// | sliding log | a summary made by [`crate::Log::summary`]: used; newest entry; when the next room comes |
///
/// The words do not depend on limit or burst, so a change of those keeps the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell(pub [u64; 3]);
