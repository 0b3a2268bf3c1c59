//! `POST /v1/check`: one decision.

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use tollgate_counters::{Commit, StoreFull};

use super::{Answer, DataPlane, json_answer, problem_answer, query_value};
use crate::answer::{Problem, write_decision, write_denial_members, write_headers};
use crate::check_body::{BodyError, CheckBody, read_object};
use crate::clock;
use crate::engine::Checked;

pub(super) fn answer(plane: &DataPlane, query: Option<&str>, body: &[u8]) -> Answer {
    let always_200 = match query_value(query, "status") {
        None => false,
        Some("200") => true,
        Some(_) => return problem_answer(&Problem::bad_request("`status` can only be 200")),
    };
    let body = match read(body) {
        Ok(body) => body,
        Err(problem) => return problem_answer(&problem),
    };
    let request = match body.request() {
        Ok(request) => request,
        Err(error) => return problem_answer(&error.into()),
    };
    let commit = if body.dry_run() {
        Commit::DryRun
    } else {
        Commit::Charge
    };
    let snapshot = plane.engine.snapshot();
    let checked = match plane.decide(&snapshot, &request, commit) {
        Ok(checked) => checked,
        Err(full) => return problem_answer(&full.into()),
    };
    let mut out = Vec::with_capacity(1024);
    write_item(&checked, &mut out);
    let refused = !checked.decision.allowed && !always_200;
    let status = if refused {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::OK
    };
    let mut answer = json_answer(status, out);
    if refused {
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    }
    write_headers(&checked, plane.styles, answer.headers_mut());
    answer
}

impl DataPlane {
    /// Decides and counts a request.
    pub(super) fn decide<'s>(
        &self,
        snapshot: &'s tollgate_catalog::snapshot::Snapshot,
        request: &tollgate_catalog::Request<'_>,
        commit: Commit,
    ) -> Result<Checked<'s>, StoreFull> {
        let started = std::time::Instant::now();
        let checked = self.engine.check(snapshot, request, commit, clock::now())?;
        if commit == Commit::Charge {
            self.metrics.observe_decision(&checked, started.elapsed());
        }
        Ok(checked)
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

impl From<StoreFull> for Problem {
    fn from(full: StoreFull) -> Self {
        Self::unavailable(format!("No decision could be made: {full}."))
    }
}
