//! `POST /v1/check/batch`: many decisions, in order, each on its own.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_counters::Commit;

use super::check::{read, write_item};
use super::reply::Reply;
use super::{Asked, DataPlane};
use crate::answer::{Problem, write_problem};
use crate::check_body::{CheckBody, read_object};
use crate::clock;

/// How many requests a batch may hold.
const MAX_REQUESTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

pub(super) fn answer(plane: &DataPlane, asked: &Asked<'_, '_>, reply: &mut Reply) {
    reply.json();
    if let Err(problem) = decide(plane, asked.body, &mut reply.body) {
        reply.problem(&problem);
    }
}

fn decide(plane: &DataPlane, body: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let batch: BatchBody<'_> = read_object(body)
        .map_err(|error| Problem::bad_request(format!("The body is not a batch: {error}.")))?;
    if batch.requests.len() > MAX_REQUESTS {
        return Err(Problem::bad_request(format!(
            "`requests` must have at most {MAX_REQUESTS} items."
        )));
    }
    // Everything is read before anything is charged.
    let mut bodies: Vec<CheckBody<'_>> = Vec::with_capacity(batch.requests.len());
    for (index, raw) in batch.requests.iter().enumerate() {
        bodies.push(read(raw.get().as_bytes()).map_err(|problem| at_index(index, problem))?);
    }
    let snapshot = plane.engine.snapshot();
    let now = clock::now();
    let mut requests = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        let request = body.request(Some(&snapshot), now);
        requests.push(request.map_err(|error| at_index(index, error.into()))?);
    }
    out.extend_from_slice(b"{\"decisions\":[");
    for (index, (request, body)) in requests.iter().zip(&bodies).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let commit = if body.dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        };
        match plane.decide(&snapshot, request, commit, now) {
            Ok(checked) => write_item(&checked, out),
            Err(full) => write_problem(&full.into(), out),
        }
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn at_index(index: usize, mut problem: Problem) -> Problem {
    problem.detail = format!("requests[{index}]: {}", problem.detail);
    problem
}
