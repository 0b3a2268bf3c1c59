//! `POST /v1/check/batch`: many decisions, in order, each on its own.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_counters::Commit;

use super::check::{read, write_item};
use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered};
use crate::answer::{Problem, write_problem};
use crate::check_body::{CheckBody, read_object};
use crate::engine::Undecided;

/// How many requests a batch may hold.
const MAX_REQUESTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let batch: BatchBody<'_> = read_object(asked.body)
        .map_err(|error| Problem::bad_request(format!("The body is not a batch: {error}.")))?;
    if batch.requests.len() > MAX_REQUESTS {
        let detail = format!("`requests` must have at most {MAX_REQUESTS} items.");
        return Err(Problem::bad_request(detail).into());
    }
    // Everything is read before anything is charged.
    let mut bodies: Vec<CheckBody<'_>> = Vec::with_capacity(batch.requests.len());
    for (index, raw) in batch.requests.iter().enumerate() {
        bodies.push(read(raw.get().as_bytes()).map_err(|problem| at_index(index, problem))?);
    }
    let mut answer = turn.answer.take();
    if answer.is_none() {
        for (index, body) in bodies.iter().enumerate() {
            let request = body.request(Some(turn.snapshot()), turn.now);
            request.map_err(|error| at_index(index, error.into()))?;
        }
        reply.json();
        reply.body.extend_from_slice(b"{\"decisions\":[");
    }
    // After a wait, what was decided before it is in the reply already.
    for (index, body) in bodies.iter().enumerate().skip(turn.decided) {
        let request = body.request(Some(turn.snapshot()), turn.now);
        let request = request.map_err(Problem::from)?;
        let out = &mut reply.body;
        if index > 0 && answer.is_none() {
            out.push(b',');
        }
        let commit = if body.dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        };
        match plane.decide(turn, &request, commit, answer.take()) {
            Ok(checked) => write_item(&checked, out),
            Err(Undecided::Waits(wait)) => return Err(Unanswered::Waits(wait, index)),
            Err(undecided) => write_problem(&undecided.into(), out),
        }
    }
    reply.body.extend_from_slice(b"]}");
    Ok(())
}

fn at_index(index: usize, mut problem: Problem) -> Problem {
    problem.detail = format!("requests[{index}]: {}", problem.detail);
    problem
}
