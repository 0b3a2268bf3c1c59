//! `POST /v1/settle`: what reserved work has really cost.

use serde::Deserialize;
use serde_json::json;
use tollgate_catalog::Request;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::keyed::Keyed;
use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered};
use crate::answer::{Problem, denial_message};
use crate::check_body::{Pairs, Text, read_object};
use crate::engine::{Checked, Undecided};
use crate::reservations::{Actual, Bill, Found, Settling, Undo};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SettleBody<'a> {
    #[serde(borrow)]
    reservation_id: Text<'a>,
    actual_cost: Option<u64>,
    #[serde(borrow)]
    actual_costs: Option<Pairs<'a, u64>>,
}

/// What a settle came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) reserved: u64,
    pub(crate) actual: u64,
    pub(crate) returned: u64,
    pub(crate) extra: u64,
}

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let body: SettleBody<'_> = read_object(asked.body)
        .map_err(|error| Problem::bad_request(format!("The body is not a settlement: {error}.")))?;
    let name = &*body.reservation_id.0;
    let known = plane.reservations.org_of(name);
    let org = known.ok_or_else(|| not_open(&Found::Unknown))?;
    if plane.claim(asked, turn, org, reply)? == Keyed::Answered {
        return Ok(());
    }
    let settling = match turn.settling() {
        Some(settling) => settling,
        None => plane.settling(name, turn.now)?,
    };
    let bill = settling.bill.clone();
    let costs = body.actual_costs.map(|Pairs(costs)| costs).unwrap_or_default();
    let costs = costs.into_iter().map(|(unit, cost)| (unit.0.into(), cost));
    let actual = actual(&bill, body.actual_cost, costs.collect())?;
    // Should it have to wait for the difference, nobody else may settle it meanwhile.
    turn.hold(settling);
    if let Some(extra) = bill.extra(&actual) {
        no_room(&plane.charge_extra(turn, &extra)?)?;
    }
    let Some(settling) = turn.settling() else {
        return Err(not_open(&Found::Gone).into());
    };
    let settled = plane.settle(settling, &actual, turn.now);
    let said = json!({
        "reservationId": name,
        "reservedCost": settled.reserved,
        "actualCost": settled.actual,
        "returnedCost": settled.returned,
        "extraCost": settled.extra,
    });
    reply.json();
    reply.body.extend_from_slice(said.to_string().as_bytes());
    turn.keep(reply, None, Undo::Nothing);
    Ok(())
}

/// Why a reservation can't be settled.
pub(crate) fn not_open(found: &Found) -> Problem {
    match found {
        Found::Busy | Found::Open(_) => Problem::conflict("This reservation is being settled."),
        Found::Gone => Problem::gone(
            "This reservation was settled, or has expired: then it is charged in full.",
        ),
        Found::Unknown => Problem {
            detail: "This node does not know the reservation. Settle it where it was made; what a node held that has \
                     stopped since is charged in full."
                .into(),
            ..Problem::not_found()
        },
    }
}

/// What was really used of what a bill has.
pub(crate) fn actual(bill: &Bill, cost: Option<u64>, costs: Vec<(Box<str>, u64)>) -> Result<Actual, Problem> {
    if cost.is_none() && costs.is_empty() {
        return Err(Problem::bad_request("`actualCost` is missing."));
    }
    if let Some((unit, _)) = costs.iter().find(|(unit, _)| !bill.has_unit(unit)) {
        let detail = format!("`actualCosts` names `{unit}`, which was not reserved.");
        return Err(Problem::bad_request(detail));
    }
    Ok(Actual {
        cost: cost.unwrap_or(bill.cost()),
        costs,
    })
}

/// Refuses a settle for whose difference there is no room.
pub(crate) fn no_room(extra: &Checked<'_>) -> Result<(), Problem> {
    if extra.decision.allowed {
        return Ok(());
    }
    Err(Problem::conflict(format!(
        "There is no room for what was used beyond the reservation, which stays as it was. {}",
        denial_message(extra)
    )))
}

impl DataPlane {
    /// A reservation that is to be settled, now by nobody else.
    pub(crate) fn settling(&self, name: &str, now: Timestamp) -> Result<Settling, Problem> {
        match self.reservations.find(name, now) {
            Found::Open(settling) => Ok(settling),
            found => Err(not_open(&found)),
        }
    }

    /// Charges what was used beyond a reservation, perhaps after it had to wait. That is no request of its own, so nobody counts
    /// it as one.
    fn charge_extra<'s>(&self, turn: &'s Turn, extra: &Request<'_>) -> Result<Checked<'s>, Undecided> {
        let (snapshot, commit) = (turn.snapshot(), Commit::Charge);
        match turn.answer.take() {
            None => self.engine.check(snapshot, extra, commit, turn.now),
            Some(heard) => self.engine.resume(snapshot, extra, commit, turn.now, heard),
        }
    }

    /// Settles a reservation whose difference, if there was one, is charged: the rest goes back.
    pub(crate) fn settle(&self, settling: Settling, actual: &Actual, now: Timestamp) -> Settled {
        let bill = settling.bill.clone();
        bill.give_back(actual, &self.engine.store, now);
        settling.done();
        let gives_back = self.engine.gives_back() || bill.is_held();
        self.correct(&bill, actual);
        Settled {
            reserved: bill.cost(),
            actual: actual.cost,
            returned: if gives_back {
                bill.cost().saturating_sub(actual.cost)
            } else {
                0
            },
            extra: actual.cost.saturating_sub(bill.cost()),
        }
    }

    /// Has the statement say what a request really cost.
    pub(crate) fn correct(&self, bill: &Bill, actual: &Actual) {
        if let Some(ledger) = self.engine.ledger.get() {
            let more = i128::from(actual.cost) - i128::from(bill.cost());
            let more = i64::try_from(more).unwrap_or(0);
            ledger
                .tallies
                .correct(&bill.request(), bill.class(), bill.at(), more);
        }
    }
}
