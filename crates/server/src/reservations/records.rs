//! The records that a fleet keeps of charges, so that any of its nodes can give them back (docs/reservations.md).

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_catalog::repository::LedgerName;
use tollgate_counters::redis::{Failure, RedisCarrier};
use tollgate_counters::shared::record::{Act, Said, Token};

use super::Bill;
use super::id::FleetId;

/// How long an answer is waited for, unless decisions wait for longer, and how often an errand is run that may have been:
/// that changes nothing, since the record says who has done it.
const PATIENCE: Duration = Duration::from_millis(150);
const TRIES: u32 = 3;
/// How long one who is about to settle a record has for it.
const HOLD_MICROS: u64 = 2_000_000;
/// How long it is known that a record was settled.
const KEPT_MICROS: u64 = 3_600_000_000;

/// The records of a fleet.
#[derive(Clone)]
pub struct Records {
    carrier: RedisCarrier,
    /// How long a decision waits for them.
    pub(super) patience: Duration,
}

/// Why nothing was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheard {
    /// Nothing was done, for certain.
    NotDone,
    /// It was done, or will be, or not.
    Unknown,
}

impl Records {
    /// Those that this carrier leads to, for which a decision waits so long.
    pub fn new(carrier: RedisCarrier, patience: Duration) -> Self {
        Self { carrier, patience }
    }

    /// What leads to them.
    pub(super) fn carrier(&self) -> &RedisCarrier {
        &self.carrier
    }

    /// Writes a record of what was charged.
    pub async fn open(&self, id: &FleetId, lane: usize, bill: &Bill, listed: bool) -> Result<Said, Unheard> {
        let act = Act::Open {
            began: bill.began(),
            until: id.until.nanos() / 1_000,
            text: bill.text(),
            listed: if listed { listing(id, bill) } else { Vec::new() },
        };
        self.attend(id, lane, act).await
    }

    /// Claims a record, to settle it.
    pub async fn claim(&self, id: &FleetId, lane: usize, by: Token) -> Result<Said, Unheard> {
        let hold = HOLD_MICROS;
        self.attend(id, lane, Act::Claim { by, hold }).await
    }

    /// Lets go of a claim, whatever becomes of that: it ends by itself.
    pub async fn release(&self, id: &FleetId, lane: usize, by: Token) {
        let _ = self.attend(id, lane, Act::Release { by }).await;
    }

    /// Settles a record that was claimed.
    pub async fn settle(
        &self,
        id: &FleetId,
        lane: usize,
        by: Token,
        backs: Vec<tollgate_counters::shared::record::Back>,
        answer: Vec<u8>,
    ) -> Result<Said, Unheard> {
        let answer = (answer, KEPT_MICROS);
        self.attend(id, lane, Act::Settle { by, backs, answer }).await
    }

    /// What an org has reserved of each quota on all nodes: of which, in the period that ends when, how much. `None` if
    /// nobody knows.
    pub async fn reserved(&self, org: &str) -> Option<HashMap<(LedgerName, u64), u64>> {
        let listed = timeout(self.timeout(), self.carrier.listed(org)).await;
        let listed = listed.ok()?.ok()?;
        let mut reserved = HashMap::new();
        for (name, end, cost) in listed.iter().flat_map(|listed| quotas(listed)) {
            let known: &mut u64 = reserved.entry((name, end)).or_default();
            *known = known.saturating_add(cost);
        }
        Some(reserved)
    }

    fn timeout(&self) -> Duration {
        PATIENCE.max(self.patience)
    }

    async fn attend(&self, id: &FleetId, lane: usize, act: Act) -> Result<Said, Unheard> {
        let mut unheard = Unheard::NotDone;
        for _ in 0..TRIES {
            let (sender, receiver) = oneshot::channel();
            let tag = id.org.as_deref().unwrap_or_default();
            let then = move |outcome| {
                let _ = sender.send(outcome);
            };
            self.carrier.attend((tag, lane), id.record, act.clone(), then);
            match timeout(self.timeout(), receiver).await {
                Ok(Ok(Ok(said))) => return Ok(said),
                Ok(Ok(Err(Failure::NotRun(_)))) => return Err(unheard),
                _ => unheard = Unheard::Unknown,
            }
        }
        Err(unheard)
    }
}

/// As what a reservation is listed: its name, and what it has of quotas.
fn listing(id: &FleetId, bill: &Bill) -> Vec<u8> {
    let mut listing = id.record.0.to_vec();
    for (name, end, cost) in bill.quotas() {
        listing.extend_from_slice(&name);
        listing.extend_from_slice(&end.to_be_bytes());
        listing.extend_from_slice(&cost.to_be_bytes());
    }
    if listing.len() == id.record.0.len() {
        return Vec::new();
    }
    listing
}

/// What it has of quotas.
fn quotas(listed: &[u8]) -> impl Iterator<Item = (LedgerName, u64, u64)> {
    let (lines, _) = listed.get(16..).unwrap_or_default().as_chunks::<32>();
    lines.iter().map(|line| {
        let (mut name, mut end, mut cost) = ([0; 16], [0; 8], [0; 8]);
        name.copy_from_slice(&line[..16]);
        end.copy_from_slice(&line[16..24]);
        cost.copy_from_slice(&line[24..]);
        (name, u64::from_be_bytes(end), u64::from_be_bytes(cost))
    })
}
