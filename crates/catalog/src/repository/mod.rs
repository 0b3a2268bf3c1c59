//! What the catalogue keeps in a database: one interface for SQLite and PostgreSQL.
//!
//! Everything is an *entry*: a JSON document of some kind, of an org or of none, under an id. Every write adds
//! a row to the *journal* in the same transaction: it is the ordered change log that nodes follow, and the
//! audit of who changed what, each row chained to the one before by its hash. Writers take turns at the
//! *head*, a single row that holds the last number and hash, so rows become visible in their order.
//!
//! Nothing here knows what an entry means. Beside the catalogue stands the [*ledger*](Repository::exchange): what was
//! used of each quota.
//!
//! The same SQL serves both databases, with columns of text and 64-bit integers that are never null. What
//! differs is only how a transaction begins, the order of text in a definition, how an array is taken apart, and how
//! news arrives.

mod address;
mod chain;
mod changes;
mod database;
mod entries;
mod files;
mod idempotency;
mod journal;
mod key;
mod kind;
mod ledger;
mod migrations;
mod pages;
mod turn;
mod verify;

use std::fmt;

pub use changes::Changes;
pub use database::Repository;
pub use files::FileObject;
pub use idempotency::{Claim, Claimed, Once};
pub use journal::Changed;
pub use key::AuditKey;
pub use ledger::{
    Alert, Alerted, Answering, Ask, Corrected, Correcting, Correction, Done, Exchange, Granted, Kept,
    LedgerName, Refund, RefusedUsage, Replaced, Row, SLOT_MS, Told, Unsettled, Usage,
};
pub use pages::{MAX_PAGE_BYTES, Page};
pub use verify::{Inspected, Verified};

/// What sort of thing an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A tier.
    Tier,
    /// An organization.
    Org,
    /// A user with a plan of their own.
    User,
    /// An app of an org.
    App,
    /// An API key of an app.
    Key,
    /// A policy.
    Policy,
    /// Other values for an org, or for one app, key or user of it.
    Override,
    /// The ordered list of endpoint classes; there is one.
    EndpointClasses,
    /// Counters of an org that were emptied.
    Reset,
    /// A candidate set of policies beside the active one.
    Rollout,
    /// Since when policies count the way they do; there is one.
    Eras,
    /// A token for the control plane.
    Token,
    /// What was used of a quota. It is in the ledger, and only its corrections are in the journal.
    Quota,
    /// Something that a newer version of this program has written, beside which this one runs. Only rows of the
    /// journal are of this kind.
    Unknown,
}

/// Where an entry is: its kind, its org (empty for those of none) and its id.
///
/// The database orders places by the bytes of the kind's name, the org and the id. That is not the order of
/// this type, which compares kinds as they are declared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// What sort of thing.
    pub kind: Kind,
    /// Whose; empty where nobody's.
    pub org: String,
    /// Which.
    pub id: String,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub place: Place,
    /// The JSON document.
    pub body: String,
    /// The number of the write that made it what it is.
    pub revision: i64,
}

/// One change of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which entry.
    pub place: Place,
    /// What it becomes; `None` to delete it.
    pub body: Option<String>,
}

/// Who writes, by which route, when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Author {
    /// Who.
    pub actor: String,
    /// The method and path of the request.
    pub route: String,
    /// The request's own id.
    pub request: String,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// Why, where a reason was given; else empty.
    pub reason: String,
}

/// A row of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    /// Its number, one above the row before.
    pub revision: i64,
    /// Who, by which route, when.
    pub author: Author,
    /// What was changed.
    pub place: Place,
    /// What it was before, as JSON; `None` if it was not there.
    pub before: Option<String>,
    /// What it became; `None` if it was deleted.
    pub after: Option<String>,
    /// The hash of this row and of the one before, in hexadecimal.
    pub hash: String,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is done; the number of its last row.
    At(i64),
    /// The catalogue has moved on from the revision the writer knew: look again, and try again.
    Behind,
    /// Another has taken over the request that this was for: it is not the writer's to do any more.
    Overtaken,
}

/// Why the database did not answer.
#[derive(Debug)]
pub enum RepositoryError {
    /// The URL names no database that is known here.
    Url(String),
    /// A newer version of this program has changed the tables: this one could only spoil them.
    Newer {
        /// The version of the tables.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// The tables hold what nothing here can have written.
    Content(String),
    /// It took too long.
    Late,
    /// Another writer holds it, and did not let go in time.
    Locked,
    /// The database's own words.
    Database(sqlx::Error),
}

impl fmt::Display for RepositoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(problem) | Self::Content(problem) => f.write_str(problem),
            Self::Newer { found, known } => write!(
                f,
                "the database's tables are of version {found}, made by a newer Tollgate: this one knows versions up \
                 to {known}"
            ),
            Self::Late => f.write_str("the database took too long to answer"),
            Self::Locked => f.write_str("another writer holds the database"),
            Self::Database(error) => write!(f, "the database: {error}"),
        }
    }
}

impl std::error::Error for RepositoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::Url(_) | Self::Newer { .. } | Self::Content(_) | Self::Late | Self::Locked => None,
        }
    }
}

impl From<sqlx::Error> for RepositoryError {
    fn from(error: sqlx::Error) -> Self {
        if database::is_locked(&error) {
            Self::Locked
        } else {
            Self::Database(error)
        }
    }
}
