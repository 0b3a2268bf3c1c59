//! `POST /v1/settle`: what reserved work has really cost.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_catalog::Request;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::desk::Claimant;
use super::keyed::Keyed;
use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered};
use crate::answer::{Problem, denial_message};
use crate::check_body::{Pairs, Text, read_object};
use crate::engine::{Checked, DeskWait, Done, Engine, Undecided, Wait};
use crate::reservations::{Actual, Bill, FleetId, Found, Settling, Undo};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
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
    let costs = body.actual_costs.map(|Pairs(costs)| costs).unwrap_or_default();
    let costs = costs.into_iter().map(|(unit, cost)| (unit.0.into(), cost));
    let costs: Vec<(Box<str>, u64)> = costs.collect();
    if let Some(done) = turn.done() {
        let Done::Settled(settled) = done else {
            return Err(not_open(&Found::Unknown).into());
        };
        write(name, &settled?, reply);
        turn.keep(reply, None, Undo::Nothing);
        return Ok(());
    }
    let settling = match turn.settling() {
        Some(settling) => settling,
        None => match plane.reservations.find(name, turn.now) {
            Found::Open(settling) => settling,
            Found::Recorded(id) => {
                let key = asked.head.header("idempotency-key");
                let claimant = Claimant {
                    cost: body.actual_cost,
                    costs,
                    key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
                };
                return Err(plane.settle_in_fleet(turn, id, claimant));
            }
            found => return Err(not_open(&found).into()),
        },
    };
    let bill = settling.bill.clone();
    let actual = actual(&bill, body.actual_cost, costs)?;
    // Should it have to wait for the difference, nobody else may settle it meanwhile.
    turn.hold(settling);
    if let Some(extra) = bill.extra(&actual) {
        no_room(&plane.charge_extra(turn, &extra)?)?;
    }
    let Some(settling) = turn.settling() else {
        return Err(not_open(&Found::Gone).into());
    };
    let settled = plane.settle(settling, &actual, turn.now);
    write(name, &settled, reply);
    turn.keep(reply, None, Undo::Nothing);
    Ok(())
}

fn write(name: &str, settled: &Settled, reply: &mut Reply) {
    let said = json!({
        "reservationId": name,
        "reservedCost": settled.reserved,
        "actualCost": settled.actual,
        "returnedCost": settled.returned,
        "extraCost": settled.extra,
    });
    reply.json();
    reply.body.extend_from_slice(said.to_string().as_bytes());
}

impl Settled {
    /// What a bill comes to. Where nothing can go back, nothing does.
    pub(super) fn of(bill: &Bill, actual: &Actual, engine: &Engine) -> Self {
        let unused = bill.cost().saturating_sub(actual.cost);
        let goes_back = bill.is_held() || !engine.is_shared();
        Self {
            reserved: bill.cost(),
            actual: actual.cost,
            returned: if goes_back { unused } else { 0 },
            extra: actual.cost.saturating_sub(bill.cost()),
        }
    }
}

/// Why a reservation can't be settled.
pub(crate) fn not_open(found: &Found) -> Problem {
    match found {
        Found::Busy | Found::Open(_) => Problem::conflict("This reservation is being settled."),
        Found::Gone => Problem::gone(
            "This reservation was settled, or has expired: then it is charged in full.",
        ),
        Found::Unknown | Found::Recorded(_) => Problem {
            detail: "The reservation is not known here. Without Redis it is settled at the node where it was made; what \
                     a node held that has stopped since, or Redis has lost, is charged in full."
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
    for (field, cost) in cost
        .iter()
        .map(|cost| ("actualCost", *cost))
        .chain(costs.iter().map(|(_, cost)| ("actualCosts", *cost)))
    {
        Request::checked_cost(field, cost).map_err(|error| Problem::bad_request(format!("{error}.")))?;
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
    /// Has a reservation settled by what the fleet has on record of it.
    fn settle_in_fleet(&self, turn: &Turn, id: FleetId, claimant: Claimant) -> Unanswered {
        let Some(desk) = self.desk() else {
            return not_open(&Found::Unknown).into();
        };
        let settling = desk.settle(turn.snapshot_kept(), id, claimant);
        let settling = async move { Done::Settled(settling.await) };
        Unanswered::Waits(Wait::Desk(DeskWait(Box::pin(settling))))
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
        self.engine.correct(&bill, actual);
        Settled::of(&bill, actual, &self.engine)
    }
}
