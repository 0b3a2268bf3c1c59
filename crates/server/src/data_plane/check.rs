//! `POST /v1/check`: one decision.

use std::sync::Arc;

use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::keyed::Keyed;
use super::reply::Reply;
use super::{Asked, DataPlane, Sender, Turn, Unanswered, query_value, reserve};
use crate::answer::{Problem, write_decision, write_denial_members, write_headers, write_too_many};
use crate::check_body::{BodyError, CheckBody};
use crate::engine::{Checked, Done, Heard, Undecided, Wait};
use crate::ledger::Used;
use crate::reservations::{Bill, Undo};

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let always_200 = always_200(asked)?;
    let body = read(asked.body)?;
    let request = body.request(Some(turn.snapshot()), turn.now);
    let request = request.map_err(Problem::from)?;
    plane.require_identity(&request, Sender::Service)?;
    let commit = if body.dry_run() {
        Commit::DryRun
    } else {
        Commit::Charge
    };
    let keyed = match turn.done() {
        None => plane.claim_in_fleet(asked, turn, request.org, reply)?,
        Some(Done::Asked(known)) => plane.hear_of_key(asked, turn, request.org, known, reply)?,
        Some(_) => return Ok(turn.say(reply)?),
    };
    let how = match keyed {
        Keyed::Answered | Keyed::OnRecord | Keyed::OtherOnRecord => return Ok(()),
        Keyed::Yes if commit == Commit::Charge => How::Held,
        Keyed::Yes | Keyed::No => How::Plain(commit),
    };
    let mut checked = Checked::blank(turn.snapshot(), turn.now);
    plane.decide(turn, &request, how, turn.answer.take(), &mut checked)?;
    write_head(plane, &checked, always_200, reply);
    write_item(&checked, &mut reply.body);
    if keyed == Keyed::No {
        return Ok(());
    }
    if how != How::Held || !checked.decision.allowed {
        return turn.finish(reply, &checked, None, Undo::Free);
    }
    let bill = Arc::new(Bill::of(&checked, &request, turn.snapshot()));
    let key = asked.head.header("idempotency-key");
    let key = key.and_then(|key| std::str::from_utf8(key).ok());
    let recording = key.and_then(|key| plane.record_of_key(&checked, request.org, key, &bill));
    turn.finish(reply, &checked, recording, Undo::Charge(bill))
}

/// Whether denials are to be 200 as well.
pub(super) fn always_200(asked: &Asked<'_, '_>) -> Result<bool, Problem> {
    match query_value(asked.head.query, "status") {
        None => Ok(false),
        Some("200") => Ok(true),
        Some(_) => Err(Problem::bad_request("`status` can only be 200.")),
    }
}

/// Answers a caller that asks too often in the form of the decision that it waits for.
pub(super) fn refuse_too_many(asked: &Asked<'_, '_>, problem: &Problem, reply: &mut Reply) {
    reply.clear();
    if always_200(asked) == Ok(true) {
        reply.json();
    } else {
        reply.status(429);
        reply.problem_json();
    }
    reply.header("x-ratelimit-scope", b"org");
    reply.header("retry-after", b"1");
    write_too_many(problem, &mut reply.body);
    if asked.head.path == reserve::PATH {
        reply.body.pop();
        reply.body.extend_from_slice(reserve::NOTHING_OPENED);
    }
}

/// Writes the status and the headers of a decision.
pub(super) fn write_head(plane: &DataPlane, checked: &Checked<'_>, always_200: bool, reply: &mut Reply) {
    if checked.decision.allowed || always_200 {
        reply.json();
    } else {
        reply.status(429);
        reply.problem_json();
    }
    write_headers(checked, plane.styles, &mut |name, value| {
        reply.header(name, value);
    });
}

/// How a request is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As any.
    Plain(Commit),
    /// What it is charged may be given back.
    Held,
}

impl DataPlane {
    /// Decides and counts a request, perhaps after it has waited, into a blank check.
    pub(super) fn decide<'s>(
        &self,
        turn: &'s Turn,
        request: &tollgate_catalog::Request<'_>,
        how: How,
        answer: Option<Heard>,
        checked: &mut Checked<'s>,
    ) -> Result<(), Undecided> {
        let started = std::time::Instant::now();
        let (snapshot, now) = (turn.snapshot(), turn.now);
        if answer.is_none() && !turn.has_leave.get() {
            self.ask_leave(request.org, now)?;
        }
        match (how, answer) {
            (How::Held, answer) => *checked = self.engine.check_held(snapshot, request, now, answer)?,
            (How::Plain(commit), None) => self.engine.check_into(snapshot, request, commit, checked)?,
            (How::Plain(commit), Some(answer)) => {
                *checked = self.engine.resume(snapshot, request, commit, now, answer)?;
            }
        }
        if how != How::Plain(Commit::DryRun) {
            self.metrics.observe_decision(checked, started.elapsed());
            self.tally(checked, request, snapshot);
        }
        Ok(())
    }

    /// Adds a decision to what its org used.
    pub(crate) fn tally(
        &self,
        checked: &Checked<'_>,
        request: &tollgate_catalog::Request<'_>,
        snapshot: &Snapshot,
    ) {
        self.tally_use(checked, request, snapshot, Used::of(checked, request));
    }

    /// Adds what requests like this one used, as it was decided, to what its org used.
    pub(crate) fn tally_use(
        &self,
        checked: &Checked<'_>,
        request: &tollgate_catalog::Request<'_>,
        snapshot: &Snapshot,
        used: Used,
    ) {
        if let Some(ledger) = self.engine.ledger.get() {
            let number = checked.stack.class;
            let class = number.and_then(|class| snapshot.classes().get(class as usize));
            let class = (number, class.map(|class| &**class));
            ledger.tallies.add(request, class, checked.now, used);
        }
    }
}

impl DataPlane {
    /// Decides and counts a request at once, or says what it waits for.
    #[inline]
    pub(crate) fn decide_now<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let started = std::time::Instant::now();
        self.ask_leave(request.org, now)?;
        let checked = self.engine.check(snapshot, request, commit, now)?;
        if commit == Commit::Charge {
            self.metrics.observe_decision(&checked, started.elapsed());
            self.tally(&checked, request, snapshot);
        }
        Ok(checked)
    }

    /// Decides and counts a request that has to wait first.
    pub(crate) async fn decide_after<'s>(
        &self,
        wait: Wait,
        snapshot: &'s Snapshot,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let started = std::time::Instant::now();
        let decided = self.engine.check_after(wait, snapshot, request, commit, now);
        let checked = decided.await?;
        if commit == Commit::Charge {
            self.metrics.observe_decision(&checked, started.elapsed());
            self.tally(&checked, request, snapshot);
        }
        Ok(checked)
    }

    /// Decides and counts a request, and waits if that must be.
    pub(crate) async fn decide_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        match self.decide_now(snapshot, request, commit, now) {
            // In a box: most don't wait.
            Err(Undecided::Waits(wait)) => {
                Box::pin(self.decide_after(wait, snapshot, request, commit, now)).await
            }
            decided => decided,
        }
    }

    /// The same of what may be given back, by whoever may ask.
    pub(crate) async fn decide_held_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &tollgate_catalog::Request<'_>,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let started = std::time::Instant::now();
        let checked = self.engine.check_held_in_time(snapshot, request, now).await?;
        self.metrics.observe_decision(&checked, started.elapsed());
        self.tally(&checked, request, snapshot);
        Ok(checked)
    }

    /// Whether an org may ask for one more decision.
    pub(crate) fn ask_leave(&self, org: Option<&str>, now: Timestamp) -> Result<(), Undecided> {
        if let (Some(cap), Some(org)) = (&self.org_cap, org)
            && !cap.admits(org, now)
        {
            self.metrics.org_asked_too_often();
            return Err(Undecided::TooOften(cap.rate()));
        }
        Ok(())
    }
}

/// Reads a check's JSON. `ttlMs` belongs to a reservation.
pub(super) fn read(body: &[u8]) -> Result<CheckBody<'_>, Problem> {
    let body = read_any(body)?;
    if body.ttl_ms().is_some() {
        return Err(Problem::bad_request(
            "The body is not a check: `ttlMs` is a field of reservations only.",
        ));
    }
    Ok(body)
}

/// Reads the JSON of a check or a reserve. `at` belongs to recorded traffic and is no field of a live one.
pub(super) fn read_any(body: &[u8]) -> Result<CheckBody<'_>, Problem> {
    let body = CheckBody::read(body)
        .map_err(|error| Problem::bad_request(format!("The body is not a check: {error}.")))?;
    if body.at().is_some() {
        return Err(Problem::bad_request(
            "The body is not a check: `at` is a field of recorded requests only.",
        ));
    }
    Ok(body)
}

/// Writes one decision: a refused one carries the problem's members too.
pub(super) fn write_item(checked: &Checked<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_decision(checked, out);
    if !checked.decision.allowed {
        out.push(b',');
        write_denial_members(checked, out);
    }
    out.push(b'}');
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::UnknownKey => Self::unauthorized(format!("{error}.")),
            BodyError::Field(error) => Self::bad_request(format!("{error}.")),
        }
    }
}

impl From<Undecided> for Problem {
    fn from(undecided: Undecided) -> Self {
        let detail = format!("No decision could be made: {undecided}.");
        match undecided {
            Undecided::TooOften(_) => Self::too_many(detail),
            _ => Self::unavailable(detail),
        }
    }
}
