//! A limit as a policy states it, and as a level of a stack.

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Capacity `burst`, starts full, refills continuously at `limit / window`.
    TokenBucket,
    /// A queue of size `burst`, starts empty, drains continuously at `limit / window`.
    LeakyBucket,
    /// Windows start at multiples of `window` since the Unix epoch.
    FixedWindowEpoch,
    /// A window starts at the first counted request.
    FixedWindowFirst,
    /// Counts what was allowed in the last `window`.
    SlidingLog,
    /// `previous × (window − elapsed) / window + current`, on epoch-aligned windows.
    SlidingCounter,
    /// A calendar day, from midnight UTC.
    QuotaDay,
    /// A calendar week, from Monday midnight UTC.
    QuotaWeek,
    /// A calendar month, from the 1st at midnight UTC.
    QuotaMonth,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 9] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindowEpoch,
        Self::FixedWindowFirst,
        Self::SlidingLog,
        Self::SlidingCounter,
        Self::QuotaDay,
        Self::QuotaWeek,
        Self::QuotaMonth,
    ];

    /// Whether the limit is a bucket, for which a burst means something.
    pub fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// A limit's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How it counts.
    pub kind: Kind,
    /// What a window admits, or a bucket regains in one.
    pub limit: u64,
    /// A bucket's capacity; the limit when left out.
    pub burst: Option<u64>,
    /// The window; a quota has its calendar instead.
    pub window_ns: u64,
}

impl Limit {
    /// What fits at once.
    pub fn capacity(&self) -> u64 {
        match self.burst {
            Some(burst) if self.kind.is_bucket() => burst,
            _ => self.limit,
        }
    }

    /// Whether `cost` fits after any wait at all: never under a limit of 0, nor above the capacity.
    pub fn ever_admits(&self, cost: u64) -> bool {
        cost == 0 || (self.limit > 0 && cost <= self.capacity())
    }
}

/// What a limit does when it has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Refuses.
    Enforce,
    /// Counts as if it refused, and only reports it.
    Shadow,
    /// Never refuses; counts on past the limit.
    Soft,
}

/// One limit of a stack, as one request meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The limit's numbers.
    pub limit: Limit,
    /// What it does without room.
    pub mode: Mode,
    /// What the request costs it.
    pub cost: u64,
    /// Which count it is.
    pub counter: u64,
    /// Where the search for a wait begins. Any guess gives the same answer, a near one gives it sooner.
    pub guess_ns: u128,
}

impl Level {
    /// A level for whose waits nobody has a guess.
    pub fn new(limit: Limit, mode: Mode, cost: u64, counter: u64) -> Self {
        Self {
            limit,
            mode,
            cost,
            counter,
            guess_ns: 0,
        }
    }

    /// The same level with a wait to try first: usually the answer that is to be judged.
    #[must_use]
    pub fn guessing(self, guess_ns: u128) -> Self {
        Self { guess_ns, ..self }
    }
}
