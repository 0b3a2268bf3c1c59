//! `Idempotency-Key`: a request that is sent again is carried out once.

mod fleet;

use std::sync::Arc;

use tollgate_core::{IdHash, Retry, Timestamp};

use super::forwarded::only;
use super::reply::Reply;
use super::turn::Turn;
use super::{Asked, DataPlane};
use crate::answer::Problem;
use crate::engine::{Checked, DeskWait, Done, Undecided, Wait};
use crate::names::lane_of;
use crate::reservations::{
    Bill, Claimed, FleetClaim, FleetId, KEPT, OrgMark, Recording, Settling, Undo, fingerprint,
};

pub(crate) use fleet::both;

/// The longest body of a request of which something is remembered.
pub(super) const MAX_KEPT_BYTES: usize = 16 * 1024;

/// Whether a request is to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyed {
    /// It is, and has no key.
    No,
    /// It is, and its answer is kept.
    Yes,
    /// It was, and is answered.
    Answered,
    /// It was, and is answered, unless the fleet says that it was refunded.
    OnRecord,
    /// The key was for another request, unless the fleet says that this was refunded.
    OtherOnRecord,
}

impl Keyed {
    /// What it comes to if the fleet has nothing to say about it.
    fn alone(self) -> Result<Self, Problem> {
        match self {
            Self::No | Self::Yes | Self::Answered => Ok(self),
            Self::OnRecord => Ok(Self::Answered),
            Self::OtherOnRecord => Err(refused(&Claimed::Other)),
        }
    }
}

impl DataPlane {
    /// Claims the key of a request, if it has one and did not before it had to wait.
    pub(super) fn claim(
        &self,
        asked: &Asked<'_, '_>,
        turn: &Turn,
        org: OrgMark,
        reply: &mut Reply,
    ) -> Result<Keyed, Problem> {
        self.claim_here(asked, turn, org, reply)?.alone()
    }

    /// The same by what this node knows, which is not all where a fleet has it on record.
    fn claim_here(
        &self,
        asked: &Asked<'_, '_>,
        turn: &Turn,
        org: OrgMark,
        reply: &mut Reply,
    ) -> Result<Keyed, Problem> {
        let Some(key) = only(asked.head, "idempotency-key")? else {
            return Ok(Keyed::No);
        };
        let mut underway = turn.underway.take().unwrap_or_default();
        if underway.claim.is_some() {
            turn.underway.set(Some(underway));
            return Ok(Keyed::Yes);
        }
        let key = std::str::from_utf8(key).ok();
        let key = good_key(key)?;
        let fingerprint = self.fingerprint(asked);
        bounded(asked)?;
        match self.keys.claim(org, key, fingerprint, turn.now) {
            Claimed::New(claim) => {
                underway.claim = Some(claim);
                turn.underway.set(Some(underway));
                Ok(Keyed::Yes)
            }
            Claimed::Done(said) => {
                reply.repeat(&said);
                Ok(Keyed::Answered)
            }
            Claimed::OnRecord(None) => Ok(Keyed::OtherOnRecord),
            Claimed::OnRecord(Some(said)) => {
                reply.repeat(&said);
                Ok(Keyed::OnRecord)
            }
            claimed => Err(refused(&claimed)),
        }
    }

    /// By what a request is told from others, on this node.
    fn fingerprint(&self, asked: &Asked<'_, '_>) -> IdHash {
        let parts = [asked.head.path.as_bytes(), asked.query(), asked.body];
        fingerprint(self.engine.seed(), &parts)
    }
}

impl Turn {
    /// Keeps the answer for whoever asks again, and what can be taken back of it.
    pub(super) fn keep(&self, reply: &Reply, until: Option<Timestamp>, undo: Undo) {
        let claim = self.underway.take().and_then(|underway| underway.claim);
        if let Some(claim) = claim {
            claim.keep(reply.kept(), until, undo);
        }
    }
}

impl DataPlane {
    /// What makes the fleet have on record what a request was charged, if a fleet has decided it.
    pub(crate) fn recording(
        &self,
        checked: &Checked<'_>,
        id: FleetId,
        bill: &Arc<Bill>,
        reserved: bool,
    ) -> Option<Recording> {
        let desk = self.desk()?;
        let lane = lane_of(&checked.stack);
        Some(Box::pin(desk.record(id, lane, bill.clone(), reserved)))
    }
}

impl DataPlane {
    /// The same of a check that carried a key.
    pub(crate) fn record_of_key(
        &self,
        checked: &Checked<'_>,
        org: Option<&str>,
        key: &str,
        bill: &Arc<Bill>,
    ) -> Option<Recording> {
        if checked.degraded {
            return None;
        }
        let until = checked.now.saturating_add(KEPT.as_nanos());
        self.recording(checked, FleetId::of_key(org, key, until), bill, false)
    }
}

impl Turn {
    /// Has the fleet put on record what was charged, before that is told.
    pub(super) fn record(
        &self,
        reply: &Reply,
        recording: Recording,
        until: Option<Timestamp>,
        undo: Undo,
    ) -> Undecided {
        let mut underway = self.underway.take().unwrap_or_default();
        underway.said = Some((reply.kept(), until, undo));
        self.underway.set(Some(underway));
        let recording = async move {
            recording.await;
            Done::Recorded
        };
        Undecided::Waits(Wait::Desk(DeskWait(Box::pin(recording))))
    }

    /// Says what was to be said once the fleet has on record what was charged.
    pub(super) fn say(&self, reply: &mut Reply) -> Result<(), Problem> {
        let mut underway = self.underway.take().unwrap_or_default();
        let Some((said, until, undo)) = underway.said.take() else {
            return Err(Problem::unavailable("No decision could be made."));
        };
        self.underway.set(Some(underway));
        reply.repeat(&said);
        self.keep(reply, until, undo);
        Ok(())
    }

    /// Takes out the claim on its key in the fleet.
    fn claim_of_fleet(&self) -> Option<FleetClaim> {
        let mut underway = self.underway.take()?;
        let claim = underway.in_fleet.take();
        self.underway.set(Some(underway));
        claim
    }

    /// Takes out the reservation that is being settled.
    pub(super) fn settling(&self) -> Option<Settling> {
        let mut underway = self.underway.take()?;
        let settling = underway.settling.take();
        self.underway.set(Some(underway));
        settling
    }

    /// Holds on to a reservation that is being settled; without an answer it stays as it was.
    pub(super) fn hold(&self, settling: Settling) {
        let mut underway = self.underway.take().unwrap_or_default();
        underway.settling = Some(settling);
        self.underway.set(Some(underway));
    }
}

/// Reads a key.
pub(crate) fn good_key(key: Option<&str>) -> Result<&str, Problem> {
    let visible = |key: &&str| key.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    key.filter(|key| (1..=255).contains(&key.len()))
        .filter(visible)
        .ok_or_else(|| Problem::bad_request("`Idempotency-Key` must be 1 to 255 visible ASCII characters."))
}

/// Why a key can't be used now.
pub(crate) fn refused(claimed: &Claimed) -> Problem {
    match claimed {
        Claimed::Other => Problem::unprocessable("This Idempotency-Key was used for another request."),
        Claimed::Full => Problem::unavailable(
            "No decision could be made: as many Idempotency-Keys are remembered as may be.",
        ),
        Claimed::InFlight | Claimed::New(_) | Claimed::Done(_) | Claimed::OnRecord(_) => {
            Problem::conflict("A request with this Idempotency-Key is being carried out.")
        }
    }
}

/// Until when a decision is repeated: a denial until it would be another.
pub(crate) fn kept_until(checked: &Checked<'_>) -> Option<Timestamp> {
    match checked.decision.retry {
        Retry::After(wait) if !checked.decision.allowed => Some(checked.now.saturating_add(wait)),
        _ => None,
    }
}

/// Whether a request is short enough for something of it to be remembered.
pub(super) fn bounded(asked: &Asked<'_, '_>) -> Result<(), Problem> {
    if asked.body.len() > MAX_KEPT_BYTES {
        return Err(Problem::too_large(format!(
            "A request that is to be remembered may have at most {MAX_KEPT_BYTES} bytes."
        )));
    }
    Ok(())
}
