//! Charges that may be given back (docs/reservations.md): reservations, and checks that carried an `Idempotency-Key`.
//!
//! Here is what this node remembers of them. How a request for one arrives, and what it is answered, is not known here.

mod bill;
mod id;
mod keys;
mod once;
mod open;
mod records;
mod request;
mod text;

use std::pin::Pin;
use std::time::Duration;

use ring::hmac;
use tollgate_core::{IdHash, KeySeed, Timestamp};

pub use bill::{Actual, Bill};
pub use id::FleetId;
pub use keys::{Claim, Claimed, KEPT, Keys, Refund, Said, Undo};
pub use once::{Answered, Asked, FleetClaim, FleetKey};
pub use open::{Found, Reservations, Settling};
pub use records::{Records, Unheard};
pub(crate) use request::Kept;

/// What makes a fleet have something on record, or remember it.
pub type Recording = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The most of each that one org may have, and that all may.
const MOST_OF_ORG: usize = 10_000;
const MOST: usize = 200_000;
/// What is remembered is divided by org, so that threads seldom meet.
const SHARDS: usize = 64;

/// An org in a node's memory; nobody's requests belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrgMark(u64);

impl OrgMark {
    /// The mark of an org.
    pub fn of(seed: KeySeed, org: Option<&str>) -> Self {
        Self(mark(seed, b"an org\0", org.unwrap_or_default().as_bytes()))
    }

    fn shard(self) -> usize {
        usize::try_from(self.0 % SHARDS as u64).unwrap_or(0)
    }
}

/// A word that only this node can make of some bytes of a kind. Names of reservations show it, so it must not tell
/// anything of the seed; the hashes by which counters are found would.
fn mark(seed: KeySeed, kind: &[u8], bytes: &[u8]) -> u64 {
    let secret = seed.words().map(u64::to_le_bytes).concat();
    let mut hash = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &secret));
    hash.update(kind);
    hash.update(bytes);
    let first = hash.sign().as_ref().first_chunk().copied();
    u64::from_be_bytes(first.unwrap_or_default())
}

/// How long it is from one time to another.
pub fn lasts(until: Timestamp, now: Timestamp) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(now.nanos()))
}

/// A text by which requests are told apart.
pub fn fingerprint(seed: KeySeed, parts: &[&[u8]]) -> IdHash {
    seed.id(&parts.join(&b"\0"[..]))
}
