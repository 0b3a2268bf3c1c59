//! What a node asks of the shared store about charges that may be given back, and what it hears. One errand, one slot,
//! one script; see docs/reservations.md.

use super::call::{Kind, Micros, Name};

/// A record of a charge, by a name that nobody guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordName(pub [u8; 16]);

/// Who claims a record.
pub type Token = [u8; 16];

/// Something that is to be done with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// It does nothing if the store runs it later than this.
    pub not_after: Micros,
    /// When what the slot knows began, and the time it showed, as last heard of it; zeros if nothing was.
    pub heard: [Micros; 2],
    /// Which record.
    pub record: RecordName,
    /// What is done.
    pub act: Act,
}

/// What is done with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It is written, after what it is about was charged.
    Open {
        /// The generation that was charged; `None` if nothing was that can be given back here.
        began: Option<Micros>,
        /// From then on it is charged for good.
        until: Micros,
        /// What is recorded.
        text: Vec<u8>,
        /// As what it is listed among those of its org; empty if it is not.
        listed: Vec<u8>,
    },
    /// Somebody is about to settle it.
    Claim {
        /// Who.
        by: Token,
        /// For so long nobody else may.
        hold: Micros,
    },
    /// Somebody will not settle it after all.
    Release {
        /// Who.
        by: Token,
    },
    /// Whoever has claimed it settles it.
    Settle {
        /// Who.
        by: Token,
        /// What goes back.
        backs: Vec<Back>,
        /// What is answered to whoever settles it again, for so long.
        answer: (Vec<u8>, Micros),
    },
}

/// What goes back to one counter, if it still counts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back {
    /// Which counter.
    pub name: Name,
    /// How it counts.
    pub kind: Kind,
    /// Its window.
    pub window: Micros,
    /// The end of the window that was charged, or the instant of a log's entry.
    pub end: Micros,
    /// How much.
    pub amount: u64,
}

/// What the store says of what it was asked, and of itself: its time, and when what the slot knows began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard<S = Said> {
    /// The store's time.
    pub now: Micros,
    /// When what the slot knows began.
    pub began: Micros,
    /// What came of the errand.
    pub said: S,
}

/// What may come of anything that is asked of a slot beside its calls.
pub trait Outcome: PartialEq + Sized {
    /// It was run after its time and did nothing.
    const LATE: Self;
    /// The slot has lost its memory.
    const LOST: Self;
}

/// What came of an errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It was run after its time and did nothing.
    Late,
    /// The slot has lost its memory, or what was charged was so before it did.
    Lost,
    /// It is done: what was recorded of a record that was claimed, what each counter took back of one that was settled.
    Done(Vec<u8>),
    /// There is no such record, or it is void.
    Unknown,
    /// It was settled: by whom, and what was answered.
    Settled(Token, Vec<u8>),
    /// It has expired.
    Expired,
    /// Somebody else has claimed it.
    Busy,
}

impl Outcome for Said {
    const LATE: Self = Self::Late;
    const LOST: Self = Self::Lost;
}
