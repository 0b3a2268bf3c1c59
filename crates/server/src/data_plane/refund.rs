//! `POST /v1/refund`: takes a check back that carried an `Idempotency-Key`, for work that was never begun.

use serde::Deserialize;
use serde_json::json;
use tollgate_catalog::Request;
use tollgate_core::Timestamp;

use super::forwarded::only;
use super::keyed::{Keyed, good_key};
use super::reply::Reply;
use super::{Asked, DataPlane, Settled, Turn, Unanswered};
use crate::answer::Problem;
use crate::check_body::{Text, identify, read_object};
use crate::engine::{DeskWait, Done, Wait};
use crate::reservations::{FleetId, OrgMark, Refund, Undo};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RefundBody<'a> {
    #[serde(borrow)]
    org_id: Option<Text<'a>>,
    #[serde(borrow)]
    api_key: Option<Text<'a>>,
    #[serde(borrow)]
    idempotency_key: Option<Text<'a>>,
}

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let body: RefundBody<'_> = read_object(asked.body)
        .map_err(|error| Problem::bad_request(format!("The body is not a refund: {error}.")))?;
    let org = body.org_id.as_ref().map(|org| &*org.0);
    let mut request = Request {
        org: Request::id("orgId", org).map_err(|error| Problem::bad_request(format!("{error}.")))?,
        ..Request::default()
    };
    if let Some(secret) = &body.api_key {
        identify(&mut request, &secret.0, Some(turn.snapshot()), turn.now).map_err(Problem::from)?;
    }
    let org = OrgMark::of(plane.engine.seed(), request.org);
    let key = match &body.idempotency_key {
        Some(key) => {
            // The header is this request's own.
            if plane.claim(asked, turn, org, reply)? == Keyed::Answered {
                return Ok(());
            }
            good_key(Some(&*key.0))?
        }
        None => {
            let key = only(asked.head, "idempotency-key")?;
            let key = key.ok_or_else(|| {
                Problem::bad_request("`idempotencyKey` is missing: which check is to be refunded?")
            })?;
            good_key(std::str::from_utf8(key).ok())?
        }
    };
    let cost = match (turn.done(), plane.desk()) {
        (Some(Done::Refunded(Ok(Some(cost)))), _) => cost,
        (Some(Done::Refunded(Err(problem))), _) => return Err(problem.into()),
        (None, Some(desk)) => {
            let id = FleetId::of_key(request.org, key, Timestamp::EPOCH);
            let refunding = desk.refund(turn.snapshot_kept(), id, key.to_owned());
            let refunding = async move { Done::Refunded(refunding.await) };
            return Err(Unanswered::Waits(Wait::Desk(DeskWait(Box::pin(refunding)))));
        }
        // The fleet has no record of it: if anybody knows it, this node does.
        _ => plane.refund_here(org, key, turn.now)?,
    };
    reply.json();
    let said = json!({"idempotencyKey": key, "refundedCost": cost});
    reply.body.extend_from_slice(said.to_string().as_bytes());
    turn.keep(reply, None, Undo::Nothing);
    Ok(())
}

impl DataPlane {
    /// Takes back a check that only this node knows.
    fn refund_here(&self, org: OrgMark, key: &str, now: Timestamp) -> Result<u64, Problem> {
        let bill = match self.keys.refund(org, key, now) {
            Refund::Of(Some(bill)) if bill.is_recorded() => return Err(not_refunded(&Refund::Unknown)),
            Refund::Of(Some(bill)) => bill,
            Refund::Of(None) => return Ok(0),
            refused => return Err(not_refunded(&refused)),
        };
        let nothing = bill.nothing();
        bill.give_back(&nothing, &self.engine.store, now);
        self.engine.correct(&bill, &nothing);
        Ok(Settled::of(&bill, &nothing, &self.engine).returned)
    }
}

pub(super) fn not_refunded(refund: &Refund) -> Problem {
    match refund {
        Refund::Gone | Refund::Of(_) => Problem::gone("This check was refunded."),
        Refund::InFlight => Problem::conflict("This check is being decided."),
        Refund::Other => Problem::unprocessable(
            "This Idempotency-Key was no plain check's. A reservation is settled, not refunded.",
        ),
        Refund::Unknown => Problem {
            detail: "No check of this org with this Idempotency-Key is known here.".into(),
            ..Problem::not_found()
        },
    }
}
