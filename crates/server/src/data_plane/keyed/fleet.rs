//! The same in a fleet: what one node has answered no other carries out again.

use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;

use super::super::forwarded::only;
use super::super::reply::Reply;
use super::super::turn::Turn;
use super::super::{Asked, DataPlane, Unanswered};
use super::{Keyed, kept_until, refused};
use crate::answer::Problem;
use crate::engine::{Checked, DeskWait, Done, Wait};
use crate::names::lane_of_org;
use crate::reservations::{Asked as Known, Claimed, FleetKey, OrgMark, Recording, Undo, lasts};

impl DataPlane {
    /// Claims the key of a check or a reserve, if it has one: on this node, and if that knows nothing of it in the fleet.
    pub(in super::super) fn claim_in_fleet(
        &self,
        asked: &Asked<'_, '_>,
        turn: &Turn,
        org: Option<&str>,
        reply: &mut Reply,
    ) -> Result<Keyed, Unanswered> {
        let Some(key) = only(asked.head, "idempotency-key")? else {
            return Ok(Keyed::No);
        };
        let keyed = self.claim(asked, turn, OrgMark::of(self.engine.seed(), org), reply)?;
        if keyed != Keyed::Yes || turn.has_leave.get() {
            return Ok(keyed);
        }
        let key = std::str::from_utf8(key).unwrap_or_default();
        let parts = [b"http", asked.head.path.as_bytes(), asked.query(), asked.body];
        let Some(asking) = self.ask_fleet(turn.snapshot(), org, key, &parts, turn.now) else {
            return Ok(keyed);
        };
        self.ask_leave(org, turn.now)?;
        turn.has_leave.set(true);
        let asking = async move { Done::Asked(asking.await) };
        Err(Unanswered::Waits(Wait::Desk(DeskWait(Box::pin(asking)))))
    }

    /// What asks the fleet, if there is one, for the key of an org's request that these parts make up.
    pub(crate) fn ask_fleet(
        &self,
        snapshot: &Snapshot,
        org: Option<&str>,
        key: &str,
        parts: &[&[u8]],
        now: Timestamp,
    ) -> Option<impl Future<Output = Known> + Send + use<>> {
        let records = self.engine.records.get()?.clone();
        let lane = lane_of_org(snapshot, org, now);
        let key = FleetKey::new(org, key, parts, lane).ok()?;
        Some(records.claim_key(key))
    }
}

impl Turn {
    /// Goes on with what the fleet knows of the key.
    pub(in super::super) fn hear_of_key(&self, known: Known, reply: &mut Reply) -> Result<Keyed, Problem> {
        match known {
            Known::Ours(claim) => {
                let mut underway = self.underway.take().unwrap_or_default();
                underway.in_fleet = Some(claim);
                self.underway.set(Some(underway));
                Ok(Keyed::Yes)
            }
            Known::Answered(answered) => {
                reply.repeat(&answered.said);
                let until = self.now.saturating_add(answered.lasts.as_nanos());
                self.keep(reply, Some(until), answered.undo);
                Ok(Keyed::Answered)
            }
            Known::Other => Err(refused(&Claimed::Other)),
            Known::InFlight => Err(refused(&Claimed::InFlight)),
        }
    }

    /// Keeps the answer, once the fleet has what it is to have of it.
    pub(in super::super) fn finish(
        &self,
        reply: &Reply,
        checked: &Checked<'_>,
        recording: Option<Recording>,
        undo: Undo,
    ) -> Result<(), Unanswered> {
        let until = kept_until(checked);
        let keeping = self.claim_of_fleet().and_then(|claim| {
            let lasts = until.map(|until| lasts(until, checked.now));
            claim.keep(&reply.kept(), lasts, &undo, !checked.degraded)
        });
        match both(recording, keeping) {
            Some(telling) => Err(self.record(reply, telling, until, undo).into()),
            None => {
                self.keep(reply, until, undo);
                Ok(())
            }
        }
    }
}

/// What makes the fleet have two things, at once.
pub(crate) fn both(one: Option<Recording>, other: Option<Recording>) -> Option<Recording> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::pin(async move {
            tokio::join!(one, other);
        })),
        (one, other) => one.or(other),
    }
}
