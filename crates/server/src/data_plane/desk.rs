//! Where charges are given back that a fleet has on record: by any of its nodes, once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;
use tollgate_counters::shared::record::{Said, Token};

use super::settle::{Settled, actual, no_room, not_open};
use crate::answer::Problem;
use crate::clock;
use crate::engine::Engine;
use crate::names::lane_of_org;
use crate::reservations::{
    Actual, Bill, FleetId, FleetKey, Found, Keys, OrgMark, Records, Refund, Reservations, Unheard,
};

/// What it takes to give back what a fleet has on record.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(super) engine: Arc<Engine>,
    pub(super) reservations: Arc<Reservations>,
    pub(super) keys: Arc<Keys>,
    pub(super) records: Records,
}

/// What somebody says that a reservation has really cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claimant {
    pub(crate) cost: Option<u64>,
    pub(crate) costs: Vec<(Box<str>, u64)>,
    /// The `Idempotency-Key` of whoever says it.
    pub(crate) key: Option<String>,
}

/// What is kept of a record that was settled.
#[derive(Serialize, Deserialize)]
struct Answer {
    key: Option<String>,
    settled: Settled,
    costs: Vec<(Box<str>, u64)>,
}

/// A record that is being settled by this node.
struct Claimed<'a> {
    desk: &'a Desk,
    id: &'a FleetId,
    lane: usize,
    by: Token,
    bill: Bill,
}

impl Desk {
    /// Has the fleet put on record what was charged. Whatever becomes of that, it was.
    pub(crate) async fn record(self, id: FleetId, lane: usize, bill: Arc<Bill>, reserved: bool) {
        let said = self.records.open(&id, lane, &bill, reserved).await;
        // Where it can't be known the record decides, if there is one.
        if matches!(said, Ok(Said::Done(_)) | Err(Unheard::Unknown)) {
            bill.is_on_record();
        }
    }

    /// Settles a reservation.
    pub(crate) async fn settle(
        self,
        snapshot: Arc<Snapshot>,
        id: FleetId,
        claimant: Claimant,
    ) -> Result<Settled, Problem> {
        let now = clock::now();
        let lane = lane_of_org(&snapshot, id.org.as_deref(), now);
        let claimed = match self.claim(&snapshot, &id, lane).await? {
            Ok(claimed) => claimed,
            Err(Said::Settled(_, answer)) => return claimant.again(&answer),
            Err(said) => return Err(not_claimed(&said, &id, now)),
        };
        let actual = match claimed.charge(&snapshot, &claimant, now).await {
            Ok(actual) => actual,
            Err(problem) => {
                self.records.release(&id, lane, claimed.by).await;
                return Err(problem);
            }
        };
        let settled = Settled::of(&claimed.bill, &actual, &self.engine);
        let local = |desk: &Self| desk.reservations.take(&id);
        claimed.settle(&actual, &claimant, settled, local).await?;
        Ok(settled)
    }

    /// Takes a check back that carried a key, and says what it cost; nothing if there is no record of it.
    pub(crate) async fn refund(
        self,
        snapshot: Arc<Snapshot>,
        id: FleetId,
        key: String,
    ) -> Result<Option<u64>, Problem> {
        let now = clock::now();
        let org = OrgMark::of(self.engine.seed(), id.org.as_deref());
        let lane = lane_of_org(&snapshot, id.org.as_deref(), now);
        let local = |desk: &Self| match desk.keys.refund(org, &key, now) {
            Refund::Of(bill) => bill,
            _ => None,
        };
        let claimed = match self.claim(&snapshot, &id, lane).await? {
            Ok(claimed) => claimed,
            Err(Said::Settled(..)) => return Err(Problem::gone("This check was refunded.")),
            Err(Said::Busy) => return Err(Problem::conflict("This check is being refunded.")),
            Err(_) => return Ok(None),
        };
        // Before anything goes back: if this node dies in between, the check is charged for good, and not free for good.
        let freed = match FleetKey::new(id.org.as_deref(), &key, &[], lane) {
            Ok(fleet_key) => self.records.clone().free_key(fleet_key).await,
            Err(_) => false,
        };
        if !freed {
            self.records.release(&id, lane, claimed.by).await;
            return Err(unheard(Unheard::NotDone));
        }
        let actual = claimed.bill.nothing();
        let settled = Settled::of(&claimed.bill, &actual, &self.engine);
        let claimant = Claimant::default();
        claimed.settle(&actual, &claimant, settled, local).await?;
        Ok(Some(settled.returned))
    }

    async fn claim<'a>(
        &'a self,
        snapshot: &Snapshot,
        id: &'a FleetId,
        lane: usize,
    ) -> Result<Result<Claimed<'a>, Said>, Problem> {
        let mut by = Token::default();
        getrandom::fill(&mut by).map_err(|_| Problem::unavailable("There is no randomness."))?;
        let text = match self.records.claim(id, lane, by).await.map_err(unheard)? {
            Said::Done(text) => text,
            said => return Ok(Err(said)),
        };
        let bill = Bill::read(&text, snapshot);
        let bill = bill.ok_or_else(|| {
            Problem::unavailable("A node of another version has written this reservation: settle it there.")
        })?;
        Ok(Ok(Claimed {
            desk: self,
            id,
            lane,
            by,
            bill,
        }))
    }
}

impl Claimed<'_> {
    /// Charges what was used beyond the record, if that was.
    async fn charge(
        &self,
        snapshot: &Snapshot,
        claimant: &Claimant,
        now: Timestamp,
    ) -> Result<Actual, Problem> {
        let actual = actual(&self.bill, claimant.cost, claimant.costs.clone())?;
        if let Some(extra) = self.bill.extra(&actual) {
            let engine = &self.desk.engine;
            let checked = engine.check_in_time(snapshot, &extra, Commit::Charge, now).await;
            no_room(&checked?)?;
        }
        Ok(actual)
    }

    /// Gives back what was not used, at all places. What lies on this node is known to it.
    async fn settle(
        &self,
        actual: &Actual,
        claimant: &Claimant,
        settled: Settled,
        local: impl FnOnce(&Desk) -> Option<Arc<Bill>>,
    ) -> Result<(), Problem> {
        let desk = self.desk;
        let answer = Answer {
            key: claimant.key.clone(),
            settled,
            costs: actual.costs.clone(),
        };
        let answer = serde_json::to_vec(&answer).unwrap_or_default();
        let backs = self.bill.backs(actual);
        let records = &desk.records;
        match records.settle(self.id, self.lane, self.by, backs, answer).await {
            Ok(Said::Done(_)) => {}
            // An answer was lost, and this is it.
            Ok(Said::Settled(by, _)) if by == self.by => {}
            Ok(said) => return Err(not_claimed(&said, self.id, clock::now())),
            Err(failure) => return Err(unheard(failure)),
        }
        let now = clock::now();
        match (local(desk), desk.engine.ledger.get()) {
            (Some(bill), _) => bill.give_back(actual, &desk.engine.store, now),
            (None, Some(ledger)) => ledger.refund(self.bill.refunds(actual)),
            (None, None) => {}
        }
        desk.engine.correct(&self.bill, actual);
        Ok(())
    }
}

impl Claimant {
    /// What is answered to a settle of what was settled: to the same, the same.
    fn again(&self, answer: &[u8]) -> Result<Settled, Problem> {
        let known: Option<Answer> = serde_json::from_slice(answer).ok();
        let known = known.filter(|known| self.key.is_some() && known.key == self.key);
        let Some(known) = known else {
            return Err(not_open(&Found::Gone));
        };
        let same = self.cost.is_none_or(|cost| cost == known.settled.actual) && self.costs == known.costs;
        if same {
            Ok(known.settled)
        } else {
            Err(super::keyed::refused(&crate::reservations::Claimed::Other))
        }
    }
}

/// Why a record could not be claimed, or settled.
fn not_claimed(said: &Said, id: &FleetId, now: Timestamp) -> Problem {
    match said {
        Said::Busy => not_open(&Found::Busy),
        Said::Unknown | Said::Lost if now < id.until => not_open(&Found::Unknown),
        _ => not_open(&Found::Gone),
    }
}

fn unheard(unheard: Unheard) -> Problem {
    Problem::unavailable(match unheard {
        Unheard::NotDone => "The shared store can't be reached, and nothing was changed.",
        Unheard::Unknown => {
            "The shared store has not answered: it may have been settled. With the same Idempotency-Key it is settled once."
        }
    })
}
