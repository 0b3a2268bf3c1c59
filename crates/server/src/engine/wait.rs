//! Why a request is not decided yet, or can't be: what it waits for, and what it hears then.

use std::pin::Pin;
use std::time::Instant;

use tollgate_counters::StoreFull;
use tollgate_counters::shared;
use tollgate_counters::shared::node::Answer;

use super::MOST_WAITS;
use super::apart::Held;
use crate::answer::Problem;
use crate::data_plane::Settled;
use crate::ledger;
use crate::reservations::Asked;

/// What a request waits for.
#[derive(Debug)]
pub enum Wait {
    /// The store that a fleet shares, perhaps with quotas held meanwhile.
    Shared(shared::Wait, Option<Box<Held>>),
    /// The ledger of quotas.
    Ledger(ledger::Wait),
    /// What a fleet has on record.
    Desk(DeskWait),
}

/// Something that is being done with what a fleet has on record.
pub struct DeskWait(pub(crate) Pin<Box<dyn Future<Output = Done> + Send>>);

impl std::fmt::Debug for DeskWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeskWait")
    }
}

/// What came of that.
#[derive(Debug)]
pub enum Done {
    /// A charge is on record, if that could be.
    Recorded,
    /// A reservation is settled.
    Settled(Result<Settled, Problem>),
    /// A check is refunded, by so much; or the fleet has no record of it.
    Refunded(Result<Option<u64>, Problem>),
    /// The fleet was asked for a key.
    Asked(Asked),
}

/// What it has heard.
#[derive(Debug)]
pub enum Heard {
    /// From the store that a fleet shares.
    Shared(Answer, Option<Box<Held>>),
    /// From the ledger of quotas.
    Ledger(ledger::Answer),
    /// What was done with what a fleet has on record.
    Desk(Done),
}

impl Wait {
    /// What is said, or that nothing is.
    pub async fn answer(self, patience: &mut Patience) -> Heard {
        patience.waits = patience.waits.saturating_sub(1);
        let again = patience.waits > 0;
        match self {
            Self::Shared(wait, held) => {
                let deadline = *patience.deadline.get_or_insert_with(|| wait.deadline());
                Heard::Shared(wait.answer(again, deadline).await, held)
            }
            Self::Ledger(wait) => Heard::Ledger(wait.answer(again).await),
            Self::Desk(wait) => Heard::Desk(wait.0.await),
        }
    }
}

/// How often a request may still have to wait, and until when it waits for the shared store: one deadline for all of its
/// waits, however many slots its counters are in.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    waits: u32,
    deadline: Option<Instant>,
}

impl Patience {
    /// A request that has not waited yet, and may so many times.
    pub(crate) const fn of(waits: u32) -> Self {
        Self {
            waits,
            deadline: None,
        }
    }

    /// Whether it must not wait once more.
    pub(crate) const fn is_over(&self) -> bool {
        self.waits == 0
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::of(MOST_WAITS)
    }
}

/// Why a request can't be decided.
#[derive(Debug)]
pub enum Undecided {
    /// There is no room for its counters.
    StoreFull(StoreFull),
    /// What is known of its org can't be read from disk.
    OrgUnreadable,
    /// The shared store is away, and some limit wants nothing decided without it.
    StoreAway,
    /// The ledger is away, and some quota wants nothing decided without it.
    LedgerAway,
    /// As many requests of its org wait for the shared store as may.
    Crowded,
    /// Its org asks more often than it may.
    TooOften(u64),
    /// The shared store or the ledger has to be heard first. Then [`Engine::resume`] goes on.
    Waits(Wait),
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StoreFull(full) => full.fmt(f),
            Self::OrgUnreadable => f.write_str("what is known of the org can't be read"),
            Self::StoreAway => f.write_str("the shared counters can't be reached"),
            Self::LedgerAway => f.write_str("the ledger of quotas can't be reached"),
            Self::Crowded => f.write_str("too many requests of this org wait already"),
            Self::TooOften(rate) => write!(f, "the org asks for more than {rate} decisions a second"),
            Self::Waits(_) => f.write_str("its counters have not answered"),
        }
    }
}

impl From<StoreFull> for Undecided {
    fn from(full: StoreFull) -> Self {
        Self::StoreFull(full)
    }
}
