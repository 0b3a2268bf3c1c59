//! `POST /v1/reserve`: a decision on work whose cost is known only afterwards.

use std::sync::Arc;

use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::check::{How, always_200, read_any, write_head};
use super::keyed::{Keyed, bounded};
use super::reply::Reply;
use super::{Asked, DataPlane, Sender, Turn, Unanswered};
use crate::answer::{Problem, rfc3339, write_decision, write_denial_members};
use crate::engine::{Checked, Done};
use crate::reservations::{Bill, Recording, Undo};

/// Where reservations are made.
pub(super) const PATH: &str = "/v1/reserve";

/// The end of an answer that opens no reservation.
pub(super) const NOTHING_OPENED: &[u8] = b",\"reservationId\":null,\"expiresAt\":null}";

/// How long a reservation lasts unless it is told, and at most.
const TTL_MS: u64 = 60_000;
const MAX_TTL_MS: u64 = 3_600_000;

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let always_200 = always_200(asked)?;
    bounded(asked)?;
    let body = read_any(asked.body)?;
    let ttl_ms = good_ttl(body.ttl_ms())?;
    let request = body.request(Some(turn.snapshot()), turn.now);
    let request = request.map_err(Problem::from)?;
    plane.require_identity(&request, Sender::Service)?;
    let keyed = match turn.done() {
        None => plane.claim_in_fleet(asked, turn, request.org, reply)?,
        Some(Done::Asked(known)) => plane.hear_of_key(asked, turn, request.org, known, reply)?,
        Some(_) => return Ok(turn.say(reply)?),
    };
    let how = match keyed {
        Keyed::Answered | Keyed::OnRecord | Keyed::OtherOnRecord => return Ok(()),
        _ if body.dry_run() => How::Plain(Commit::DryRun),
        _ => How::Held,
    };
    plane.has_room(request.org)?;
    let mut checked = Checked::blank(turn.snapshot(), turn.now);
    plane.decide(turn, &request, how, turn.answer.take(), &mut checked)?;
    write_head(plane, &checked, always_200, reply);
    let opened = (how == How::Held).then(|| plane.open(&checked, &request, turn.snapshot(), ttl_ms));
    let opened = opened.flatten();
    write(&checked, opened.as_ref(), &mut reply.body);
    let recording = opened.and_then(|opened| opened.recording);
    turn.finish(reply, &checked, recording, Undo::Nothing)
}

/// How long a reservation is to last.
pub(crate) fn good_ttl(ttl_ms: Option<u64>) -> Result<u64, Problem> {
    let ttl_ms = ttl_ms.unwrap_or(TTL_MS);
    if (1..=MAX_TTL_MS).contains(&ttl_ms) {
        return Ok(ttl_ms);
    }
    Err(Problem::bad_request(format!(
        "`ttlMs` must be between 1 and {MAX_TTL_MS}."
    )))
}

impl DataPlane {
    /// Whether an org may reserve once more. It is asked before anything is charged.
    pub(crate) fn has_room(&self, org: Option<&str>) -> Result<(), Problem> {
        if self.reservations.has_room(org) {
            return Ok(());
        }
        Err(Problem::unavailable(
            "No decision could be made: as many reservations are open as may be.",
        ))
    }

    /// Opens a reservation of what a request was charged, if it was allowed.
    pub(crate) fn open(
        &self,
        checked: &Checked<'_>,
        request: &Request<'_>,
        snapshot: &Snapshot,
        ttl_ms: u64,
    ) -> Option<Opened> {
        if !checked.decision.allowed {
            return None;
        }
        let until = checked.now.saturating_add(u128::from(ttl_ms) * 1_000_000);
        let bill = Arc::new(Bill::of(checked, request, snapshot));
        if self.engine.is_shared()
            && !checked.degraded
            && let Ok((id, name)) = self.reservations.open_in_fleet(request.org, bill.clone(), until)
        {
            let recording = self.recording(checked, id, &bill, true);
            return Some(Opened {
                name,
                until,
                recording,
            });
        }
        Some(Opened {
            name: self.reservations.open(request.org, bill, until),
            until,
            recording: None,
        })
    }
}

/// A reservation that was opened.
pub(crate) struct Opened {
    /// Its name.
    pub(crate) name: String,
    /// When it ends.
    pub(crate) until: Timestamp,
    /// What makes the fleet have it on record. It is told afterwards.
    pub(crate) recording: Option<Recording>,
}

fn write(checked: &Checked<'_>, opened: Option<&Opened>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_decision(checked, out);
    if !checked.decision.allowed {
        out.push(b',');
        write_denial_members(checked, out);
    }
    match opened {
        Some(Opened { name, until, .. }) => {
            out.extend_from_slice(b",\"reservationId\":\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\",\"expiresAt\":\"");
            rfc3339(*until, 0, out);
            out.extend_from_slice(b"\"}");
        }
        None => out.extend_from_slice(NOTHING_OPENED),
    }
}
