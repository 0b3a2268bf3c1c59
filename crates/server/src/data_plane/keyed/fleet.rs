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
        let keyed = self.claim_here(asked, turn, OrgMark::of(self.engine.seed(), org), reply)?;
        if matches!(keyed, Keyed::No | Keyed::Answered) || turn.has_leave.get() {
            return Ok(keyed.alone()?);
        }
        let key = std::str::from_utf8(key).unwrap_or_default();
        let parts = [b"http", asked.head.path.as_bytes(), asked.query(), asked.body];
        let Some(asking) = self.ask_fleet(turn.snapshot(), org, key, &parts, turn.now) else {
            return Ok(keyed.alone()?);
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

impl DataPlane {
    /// Goes on with what the fleet knows of the key.
    pub(in super::super) fn hear_of_key(
        &self,
        asked: &Asked<'_, '_>,
        turn: &Turn,
        org: Option<&str>,
        known: Known,
        reply: &mut Reply,
    ) -> Result<Keyed, Problem> {
        match known {
            Known::Ours(claim) => {
                let keyed = self.claim_freed(asked, turn, org, claim.was_freed(), reply)?;
                if keyed == Keyed::Yes {
                    let mut underway = turn.underway.take().unwrap_or_default();
                    underway.in_fleet = Some(claim);
                    turn.underway.set(Some(underway));
                }
                Ok(keyed)
            }
            // What this node has answered itself it repeats, whatever others have since its store forgot it.
            Known::Answered(answered) if !answered.anew && !turn.has_claim() => {
                let org = OrgMark::of(self.engine.seed(), org);
                self.claim(asked, turn, org, reply)
            }
            Known::Answered(answered) => {
                reply.repeat(&answered.said);
                let until = turn.now.saturating_add(answered.lasts.as_nanos());
                turn.keep(reply, Some(until), answered.undo);
                Ok(Keyed::Answered)
            }
            Known::Other => Err(refused(&Claimed::Other)),
            Known::InFlight => Err(refused(&Claimed::InFlight)),
        }
    }

    /// Claims on this node what the fleet has left to it. What this node has answered holds, unless it was refunded.
    fn claim_freed(
        &self,
        asked: &Asked<'_, '_>,
        turn: &Turn,
        org: Option<&str>,
        freed: bool,
        reply: &mut Reply,
    ) -> Result<Keyed, Problem> {
        let org = OrgMark::of(self.engine.seed(), org);
        let keyed = self.claim_here(asked, turn, org, reply)?;
        if !freed || !matches!(keyed, Keyed::OnRecord | Keyed::OtherOnRecord) {
            return keyed.alone();
        }
        reply.clear();
        let key = only(asked.head, "idempotency-key")?;
        let key = key
            .and_then(|key| std::str::from_utf8(key).ok())
            .unwrap_or_default();
        let fingerprint = self.fingerprint(asked);
        match self.keys.claim_anew(org, key, fingerprint, turn.now) {
            Claimed::New(claim) => {
                let mut underway = turn.underway.take().unwrap_or_default();
                underway.claim = Some(claim);
                turn.underway.set(Some(underway));
                Ok(Keyed::Yes)
            }
            claimed => Err(refused(&claimed)),
        }
    }
}

impl Turn {
    /// Whether this node has claimed the key for it.
    fn has_claim(&self) -> bool {
        let underway = self.underway.take();
        let has = underway.as_ref().is_some_and(|underway| underway.claim.is_some());
        self.underway.set(underway);
        has
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
