//! What a node asks of the shared store about requests that are to be carried out once, and what it hears. One question,
//! one slot, one script; see docs/reservations.md.

use super::call::Micros;
use super::record::{Outcome, Token};

/// A client's key within its org, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(pub [u8; 16]);

/// By which requests are told apart, the same on every node.
pub type Print = [u8; 32];

/// Something that is asked about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Nothing is done if the store runs it later than this.
    pub not_after: Micros,
    /// When what the slot knows began, and the time it showed, as last heard of it; zeros if nothing was.
    pub heard: [Micros; 2],
    /// Which key.
    pub key: KeyName,
    /// Who asks: one request at one node.
    pub by: Token,
    /// What is to be done.
    pub act: Act,
    /// How many keys of an org are remembered, and for how long.
    pub room: Room,
}

/// What is done with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A request is about to be carried out.
    Claim {
        /// Which.
        print: Print,
        /// For so long nobody else may.
        hold: Micros,
    },
    /// It was carried out.
    Keep {
        /// Which.
        print: Print,
        /// What was answered.
        answer: Vec<u8>,
        /// For so long that is told to whoever asks again.
        lasts: Micros,
    },
    /// It was not carried out after all.
    Forget,
    /// What it was charged was given back: the key is free for another.
    Free,
}

/// How much is remembered of an org.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// So many keys; older ones make way.
    pub most: u64,
    /// For so long since they were claimed.
    pub kept: Micros,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It was run after its time and did nothing.
    Late,
    /// The slot has lost its memory.
    Lost,
    /// It is done.
    Done,
    /// It is done, of a key that was free again: whoever remembers an answer to it is to forget that.
    Freed,
    /// This was answered, and is told for so long yet.
    Answered(Micros, Vec<u8>),
    /// The same, since the key was free again: whoever remembers another answer is to forget that.
    AnsweredAnew(Micros, Vec<u8>),
    /// The key is another request's.
    Other,
    /// Somebody else has claimed it.
    Busy,
}

impl Outcome for Said {
    const LATE: Self = Self::Late;
    const LOST: Self = Self::Lost;
}
