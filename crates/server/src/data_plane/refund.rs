//! `POST /v1/refund`: takes a check back that carried an `Idempotency-Key`, for work that was never begun.

use serde::Deserialize;
use serde_json::json;
use tollgate_catalog::Request;

use super::keyed::{Keyed, good_key};
use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered};
use crate::answer::Problem;
use crate::check_body::{Text, identify, read_object};
use crate::reservations::{Actual, OrgMark, Refund, Undo};

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
            let key = asked.head.header("idempotency-key");
            let key = key.ok_or_else(|| {
                Problem::bad_request("`idempotencyKey` is missing: which check is to be refunded?")
            })?;
            good_key(std::str::from_utf8(key).ok())?
        }
    };
    let bill = match plane.keys.refund(org, key, turn.now) {
        Refund::Of(bill) => bill,
        refused => return Err(not_refunded(&refused).into()),
    };
    let mut cost = 0;
    if let Some(bill) = bill {
        let nothing = Actual {
            cost: 0,
            costs: bill
                .request()
                .costs
                .iter()
                .map(|(unit, _)| ((*unit).into(), 0))
                .collect(),
        };
        bill.give_back(&nothing, &plane.engine.store, turn.now);
        plane.correct(&bill, &nothing);
        let gives_back = plane.engine.gives_back() || bill.is_held();
        cost = if gives_back { bill.cost() } else { 0 };
    }
    reply.json();
    let said = json!({"idempotencyKey": key, "refundedCost": cost});
    reply.body.extend_from_slice(said.to_string().as_bytes());
    turn.keep(reply, None, Undo::Nothing);
    Ok(())
}

fn not_refunded(refund: &Refund) -> Problem {
    match refund {
        Refund::Gone | Refund::Of(_) => Problem::gone("This check was refunded."),
        Refund::InFlight => Problem::conflict("This check is being decided."),
        Refund::Other => Problem::unprocessable(
            "This Idempotency-Key was no plain check's. A reservation is settled, not refunded.",
        ),
        Refund::Unknown => Problem {
            detail: "This node remembers no check of this org with this Idempotency-Key.".into(),
            ..Problem::not_found()
        },
    }
}
