//! `POST /v1/check/batch`: many decisions, each on its own, in order.
//!
//! Those that have to wait for the shared store wait together. A request that meets a counter of one that waits is not
//! begun before that is decided, unless the two are the same: what is decided first then makes no difference. What can
//! be decided at once is, in turns with whatever else the thread has to do.

use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::check::{read, write_item};
use super::late::fill_gaps;
use super::reply::Reply;
use super::{DataPlane, Late, Order, Series, decide_late};
use crate::answer::{Problem, write_problem, write_too_many};
use crate::check_body::{CheckBody, read_object};
use crate::clock;
use crate::engine::Undecided;
use crate::metrics::Protocol;
use crate::workers::{STEPS, Turns};

/// How many requests a batch may hold.
pub(crate) const MAX_REQUESTS: usize = 1_000;
/// To find the requests in a body of so many bytes is a turn of its own.
const LONG_BODY: usize = 8 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

/// The requests of a batch, as they were written and as they are decided.
struct Batch<'b, 'r> {
    texts: &'b [&'r RawValue],
    bodies: &'b [CheckBody<'b>],
    requests: &'b [Request<'r>],
    snapshot: &'b Snapshot,
    now: Timestamp,
}

/// Answers a batch.
pub(super) async fn answer(plane: &DataPlane, body: &[u8], turns: &Turns, reply: &mut Reply) {
    let started = Instant::now();
    if let Err(problem) = decide_all(plane, body, turns, reply).await {
        reply.problem(&problem);
    }
    plane.metrics.observe_request(Protocol::Http, started.elapsed());
}

async fn decide_all(plane: &DataPlane, body: &[u8], turns: &Turns, reply: &mut Reply) -> Result<(), Problem> {
    if body.len() > LONG_BODY {
        turns.take(STEPS as usize).await;
    }
    let batch: BatchBody<'_> = read_object(body)
        .map_err(|error| Problem::bad_request(format!("The body is not a batch: {error}.")))?;
    if batch.requests.len() > MAX_REQUESTS {
        let detail = format!("`requests` must have at most {MAX_REQUESTS} items.");
        return Err(Problem::bad_request(detail));
    }
    let (snapshot, now) = (plane.engine.snapshot_full(), clock::now());
    // Everything is read before anything is charged.
    let mut bodies: Vec<CheckBody<'_>> = Vec::with_capacity(batch.requests.len());
    for (index, raw) in batch.requests.iter().enumerate() {
        turns.take(1).await;
        bodies.push(read(raw.get().as_bytes()).map_err(|problem| at_index(index, problem))?);
    }
    let mut requests = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        turns.take(1).await;
        let request = body.request(Some(&snapshot), now);
        requests.push(request.map_err(|error| at_index(index, error.into()))?);
    }
    let batch = Batch {
        texts: &batch.requests,
        bodies: &bodies,
        requests: &requests,
        snapshot: &snapshot,
        now,
    };
    reply.json();
    reply.body.extend_from_slice(b"{\"decisions\":[");
    let (late, gaps) = batch.decide_at_once(plane, turns, &mut reply.body).await;
    if !late.is_empty() {
        let items = Box::pin(batch.decide_late(plane, late)).await;
        reply.body = fill_gaps(&reply.body, &gaps, items);
    }
    reply.body.extend_from_slice(b"]}");
    Ok(())
}

impl<'r> Batch<'_, 'r> {
    /// Writes what can be decided at once; hands back what can't, and where in the answer that belongs.
    async fn decide_at_once(
        &self,
        plane: &DataPlane,
        turns: &Turns,
        out: &mut Vec<u8>,
    ) -> (Vec<Late>, Vec<usize>) {
        let (mut late, mut gaps) = (Vec::new(), Vec::new());
        let mut order = Order::new(self.snapshot, self.now);
        let mut number = 0;
        for requests in self.requests.chunks(STEPS as usize) {
            turns.take(requests.len()).await;
            let mut series = Series::of(plane, self.snapshot, self.now);
            for request in requests {
                if number > 0 {
                    out.push(b',');
                }
                let text = self.text(number);
                if order.admits(request, text) {
                    let decided =
                        series.decide(request, self.commit(number), |checked| write_item(checked, out));
                    match decided {
                        Ok(()) => {}
                        Err(Undecided::Waits(wait)) => {
                            order.waits(request, text);
                            late.push((number, Some(wait)));
                            gaps.push(out.len());
                        }
                        Err(undecided) => write_no_decision(undecided, out),
                    }
                } else {
                    late.push((number, None));
                    gaps.push(out.len());
                }
                number += 1;
            }
        }
        (late, gaps)
    }

    /// Decides what has to wait.
    async fn decide_late(&self, plane: &DataPlane, late: Vec<Late>) -> Vec<(usize, Vec<u8>)> {
        let check = |place: usize| (&self.requests[place], self.text(place), self.commit(place));
        decide_late(plane, late, (self.snapshot, self.now), check, |_, decided| {
            let mut item = Vec::new();
            match decided {
                Ok(checked) => write_item(&checked, &mut item),
                Err(undecided) => write_no_decision(undecided, &mut item),
            }
            item
        })
        .await
    }

    fn text(&self, place: usize) -> &'r [u8] {
        self.texts[place].get().as_bytes()
    }

    fn commit(&self, place: usize) -> Commit {
        if self.bodies[place].dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        }
    }
}

/// Writes an item that says why there is no decision.
fn write_no_decision(undecided: Undecided, out: &mut Vec<u8>) {
    match undecided {
        Undecided::TooOften(_) => write_too_many(&undecided.into(), out),
        undecided => write_problem(&undecided.into(), out),
    }
}

fn at_index(index: usize, mut problem: Problem) -> Problem {
    problem.detail = format!("requests[{index}]: {}", problem.detail);
    problem
}
