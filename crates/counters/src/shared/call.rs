//! What a node asks of the shared store, and what it hears: one call, one slot, one script.
//!
//! Times are the store's, in microseconds since the epoch. Every number is below 2^53, since the script that
//! runs a call knows no others.

use tollgate_core::{Algorithm, Anchor, Cell, Level, Mode, Rule, Timestamp};

use crate::memory::Commit;

/// A point in the store's time, or a length of it.
pub type Micros = u64;

const NANOS_PER_MICRO: u64 = 1_000;

/// The longest a lease is held. A log that lost its past waits so much longer, for what was leased from it.
pub const LONGEST_HOLD: Micros = 1_000_000;

/// Soft limits count no further.
pub const MOST: u64 = 1 << 52;

/// What a counter is called within its slot: the same on every node and in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub [u8; 16]);

/// Which lease: the node's incarnation and a number that it gives out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// Random at each start of the node, below 2^52.
    pub node: u64,
    /// Counted up from 1.
    pub number: u64,
}

/// One call to a slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// The call does nothing if the store runs it later than this.
    pub not_after: Micros,
    /// When what the slot knows began, and the time it showed, as last heard of it; zeros if nothing was. A slot that
    /// began earlier, or has not noted a time so late, has gone back to what it knew before.
    pub heard: [Micros; 2],
    /// The counters it is about, each once.
    pub subjects: Vec<Subject>,
    /// Leases given back. They come first.
    pub returns: Vec<Return>,
    /// What fallbacks let through. It is charged before anything is decided.
    pub settlements: Vec<Settlement>,
    /// Requests that wait, in order, each decided all or none.
    pub needs: Vec<Need>,
    /// What is borrowed ahead, best effort, after all needs.
    pub wants: Vec<Want>,
}

/// A counter of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: Name,
    /// The limit on it; where several watch one count, the largest.
    pub terms: Terms,
    /// Counters it replaces, by their place among the subjects: while it is untouched it has no more room than
    /// they have left.
    pub formers: Vec<usize>,
    /// When a counter was left that it replaces and that lives in another slot; 0 if there is none. Of one that is
    /// untouched everything was used up then.
    pub left: Micros,
}

/// A limit in the store's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How it counts.
    pub kind: Kind,
    /// What a window admits, or a bucket regains in one.
    pub limit: u64,
    /// What fits at once.
    pub capacity: u64,
    /// The window; of a quota its nominal length.
    pub window: Micros,
    /// Which version of the policies says so; 0 if nobody counts them. Of two, the newer one's numbers hold.
    pub revision: u64,
    /// Of a quota: when its present period began, when it ends, and when the next one does.
    pub period: [Micros; 3],
}

/// How a limit counts, as the script numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A token bucket.
    Token = 1,
    /// A leaky bucket.
    Leaky = 2,
    /// A window from the epoch.
    Window = 3,
    /// A window from its first request.
    First = 4,
    /// A calendar period.
    Quota = 5,
    /// Two windows, the older one fading out.
    Sliding = 6,
    /// Every admission.
    Log = 7,
}

/// What a fallback let through on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Of which counter.
    pub subject: usize,
    /// What is owed of it: all of it, or of a bucket what has not drained at the node's share of the rate.
    pub owed: u64,
    /// Of a bucket: what has drained at that share.
    pub drained: u64,
    /// When the first of it was let through, no later than it was.
    pub since: Micros,
    /// How long ago that was by the node's clock. The store's may have been set since: then nobody knows when it was.
    pub age: Micros,
    /// How many nodes share the rate.
    pub nodes: u64,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Whether it is carried out.
    pub commit: Commit,
    /// Its levels.
    pub parts: Vec<Part>,
}

/// A level of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its counter, by its place among the subjects.
    pub subject: usize,
    /// This level's own limit.
    pub limit: u64,
    /// This level's own capacity.
    pub capacity: u64,
    /// What it costs.
    pub cost: u64,
    /// What the level does without room.
    pub mode: Mode,
}

/// Tokens to borrow ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Of which counter.
    pub subject: usize,
    /// At most so many.
    pub amount: u64,
    /// For how long at most.
    pub hold: Micros,
    /// The lease they become.
    pub lease: LeaseId,
    /// No more may be counted with them: by the least of the limits that they are to be spent under. A soft one has no
    /// end, which [`MOST`] stands for.
    pub most: u64,
    /// A request waits for them and takes them as soon as they are lent: they may be the last of a bucket, and open
    /// a window.
    pub needed: bool,
}

impl Want {
    /// Whether it is lent past the end of a limit.
    pub fn is_soft(&self) -> bool {
        self.most >= MOST
    }
}

/// How much may be counted for a request that a limit lets through; without end if the limit is soft.
pub fn most_of(capacity: u64, mode: Mode) -> u64 {
    if mode == Mode::Soft { MOST } else { capacity }
}

/// A lease that has ended, or is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// Of which counter.
    pub subject: usize,
    /// Which lease.
    pub lease: LeaseId,
    /// What of it was not spent.
    pub unspent: u64,
    /// No later than this was anything of it spent.
    pub last_spent: Micros,
}

/// What the store says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The call never reached the store, for certain.
    NotRun,
    /// The call was run after its time and did nothing.
    Late {
        /// The store's time.
        now: Micros,
    },
    /// It was run.
    Done(Done),
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The store's time.
    pub now: Micros,
    /// When what the slot knows began: another instant than before means that it lost its memory.
    pub began: Micros,
    /// For each need, each of its parts.
    pub verdicts: Vec<Vec<Seen>>,
    /// For each want, what was lent.
    pub grants: Vec<Grant>,
}

/// A level as a need saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// It had room.
    pub fits: bool,
    /// The counter after the need.
    pub state: State,
}

/// A lease as it was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// So many tokens, perhaps none.
    pub amount: u64,
    /// For so long since the call was sent.
    pub hold: Micros,
    /// The counter after the call.
    pub state: State,
}

/// A counter's numbers, with all that is leased counted as used.
///
/// | kind | numbers |
/// |---|---|
/// | token, leaky | when it was true; whole tokens owed; further parts of a token, each 1 / window |
/// | window, first, quota | the window's end; count; 0 |
/// | sliding | the window's end; previous count; current count |
/// | log | used; the newest entry; when room comes |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State(pub [u64; 3]);

impl Terms {
    /// The terms of a level at an instant of the store's time.
    pub fn of(level: &Level<'_>, revision: u64, now: Timestamp) -> Self {
        let Rule {
            algorithm,
            limit,
            capacity,
            window_ns,
            ..
        } = *level.rule;
        let mut period = [0; 3];
        if let Algorithm::Quota(length) = algorithm {
            let (start, end) = level.calendar.period(length, now);
            let (_, next) = level.calendar.period(length, end);
            period = [start, end, next].map(micros);
        }
        Self {
            kind: Kind::of(algorithm),
            limit,
            capacity,
            window: window_ns / NANOS_PER_MICRO,
            revision,
            period,
        }
    }
}

impl Terms {
    /// When the period of a quota ends that holds an instant. Clocks differ: it may be the one before the present.
    pub(super) fn period_end(&self, at: Micros) -> Micros {
        let end = self.period.into_iter().find(|end| at < *end);
        end.unwrap_or(self.period[2])
    }
}

impl Kind {
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::Token,
            Algorithm::LeakyBucket => Self::Leaky,
            Algorithm::FixedWindow(Anchor::Epoch) => Self::Window,
            Algorithm::FixedWindow(Anchor::First) => Self::First,
            Algorithm::Quota(_) => Self::Quota,
            Algorithm::SlidingCounter => Self::Sliding,
            Algorithm::SlidingLog => Self::Log,
        }
    }

    /// The kind of a number of the script's.
    pub fn numbered(number: u8) -> Option<Self> {
        let all = [
            Self::Token,
            Self::Leaky,
            Self::Window,
            Self::First,
            Self::Quota,
            Self::Sliding,
            Self::Log,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether it refills continuously.
    pub fn is_bucket(self) -> bool {
        matches!(self, Self::Token | Self::Leaky)
    }
}

impl State {
    /// The state as the core knows it.
    pub fn cell(self, terms: &Terms) -> Cell {
        let [a, b, c] = self.0;
        let nanos = |micros: Micros| micros.saturating_mul(NANOS_PER_MICRO);
        match terms.kind {
            Kind::Token | Kind::Leaky => {
                let window = u128::from(nanos(terms.window));
                let debt = u128::from(b) * window + u128::from(nanos(c));
                Cell::owing(debt, nanos(a))
            }
            Kind::Window | Kind::First | Kind::Quota => Cell([nanos(a), b, 0]),
            Kind::Sliding => Cell([nanos(a), b, c]),
            Kind::Log => Cell([a, nanos(b), nanos(c)]),
        }
    }
}

/// An instant in the store's units, rounded down.
pub fn micros(at: Timestamp) -> Micros {
    at.nanos() / NANOS_PER_MICRO
}

/// An instant of the store's time.
pub fn instant(at: Micros) -> Timestamp {
    Timestamp::from_nanos(at.saturating_mul(NANOS_PER_MICRO))
}
