//! `POST /v1/check`: one decision.

use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered, query_value};
use crate::answer::{Problem, write_decision, write_denial_members, write_headers};
use crate::check_body::{BodyError, CheckBody, read_object};
use crate::engine::{Checked, Heard, Undecided};

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let always_200 = match query_value(asked.head.query, "status") {
        None => false,
        Some("200") => true,
        Some(_) => return Err(Problem::bad_request("`status` can only be 200.").into()),
    };
    let body = read(asked.body)?;
    let request = body.request(Some(turn.snapshot()), turn.now);
    let request = request.map_err(Problem::from)?;
    let commit = if body.dry_run() {
        Commit::DryRun
    } else {
        Commit::Charge
    };
    let checked = plane.decide(turn, &request, commit, turn.answer.take());
    let checked = checked?;
    if checked.decision.allowed || always_200 {
        reply.json();
    } else {
        reply.status(429);
        reply.problem_json();
    }
    write_headers(&checked, plane.styles, &mut |name, value| {
        reply.header(name, value);
    });
    write_item(&checked, &mut reply.body);
    Ok(())
}

impl DataPlane {
    /// Decides and counts a request, perhaps after it has waited.
    pub(super) fn decide<'s>(
        &self,
        turn: &'s Turn,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
        answer: Option<Heard>,
    ) -> Result<Checked<'s>, Undecided> {
        let started = std::time::Instant::now();
        let (snapshot, now) = (turn.snapshot(), turn.now);
        if answer.is_none() {
            self.ask_leave(request.org, now)?;
        }
        let checked = match answer {
            None => self.engine.check(snapshot, request, commit, now)?,
            Some(answer) => self.engine.resume(snapshot, request, commit, now, answer)?,
        };
        if commit == Commit::Charge {
            self.metrics.observe_decision(&checked, started.elapsed());
            if let Some(ledger) = self.engine.ledger.get() {
                let class = checked
                    .stack
                    .class
                    .and_then(|class| snapshot.classes().get(class as usize));
                ledger.tallies.add(&checked, request, class.map(|class| &**class));
            }
        }
        Ok(checked)
    }
}

impl DataPlane {
    /// The same for whoever can wait by themselves.
    pub(crate) async fn decide_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let started = std::time::Instant::now();
        self.ask_leave(request.org, now)?;
        let checked = self.engine.check_in_time(snapshot, request, commit, now).await?;
        if commit == Commit::Charge {
            self.metrics.observe_decision(&checked, started.elapsed());
        }
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

/// Reads a check's JSON. `at` belongs to recorded traffic and is no field of a live one.
pub(super) fn read(body: &[u8]) -> Result<CheckBody<'_>, Problem> {
    let body: CheckBody<'_> = read_object(body)
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
