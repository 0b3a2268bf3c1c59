//! `POST /v1/check/batch`: many decisions, each on its own, in order.
//!
//! Those that have to wait for the shared store wait together. A request that meets a counter of one that waits is not
//! begun before that is decided, unless the two are the same: what is decided first then makes no difference.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_counters::Commit;

use super::check::{How, read, write_item};
use super::order::Order;
use super::reply::Reply;
use super::{Asked, DataPlane, Sender, Turn, Unanswered};
use crate::answer::{Problem, write_problem, write_too_many};
use crate::check_body::{CheckBody, read_object};
use crate::engine::{Checked, Heard, Patience, Undecided, Wait};

/// How many requests a batch may hold.
pub(crate) const MAX_REQUESTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

/// How far a batch has come that waits.
#[derive(Debug)]
pub(super) struct Progress {
    items: Vec<Item>,
}

/// How far one of its requests has come.
#[derive(Debug)]
enum Item {
    /// Nobody was asked yet.
    New,
    /// The shared store is asked.
    Waits(Wait, Patience),
    /// It has answered.
    Heard(Heard, Patience),
    /// This is the decision.
    Written(Vec<u8>),
}

impl Progress {
    /// Takes out what is waited for, with how often and until when it may be.
    pub(super) fn waits(&mut self) -> Vec<(usize, Wait, Patience)> {
        let mut waits = Vec::new();
        for (index, item) in self.items.iter_mut().enumerate() {
            match std::mem::replace(item, Item::New) {
                Item::Waits(wait, patience) => waits.push((index, wait, patience)),
                other => *item = other,
            }
        }
        waits
    }

    /// Notes what the store says.
    pub(super) fn heard(&mut self, index: usize, answer: Heard, patience: Patience) {
        self.items[index] = Item::Heard(answer, patience);
    }
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
    let mut requests = Vec::with_capacity(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        let request = body.request(Some(turn.snapshot()), turn.now);
        let request = request.map_err(|error| at_index(index, error.into()))?;
        let identified = plane.require_identity(&request, Sender::Service);
        identified.map_err(|problem| at_index(index, problem))?;
        requests.push(request);
    }
    let mut items = match turn.progress.take() {
        Some(progress) => progress.items,
        None => bodies.iter().map(|_| Item::New).collect(),
    };
    let mut order = Order::new(turn.snapshot(), turn.now);
    for (index, request) in requests.iter().enumerate() {
        let text = batch.requests[index].get().as_bytes();
        let (answer, patience) = match std::mem::replace(&mut items[index], Item::New) {
            Item::New if order.admits(request, text) => (None, Patience::default()),
            Item::New => continue,
            Item::Heard(answer, patience) => (Some(answer), patience),
            other => {
                items[index] = other;
                continue;
            }
        };
        let commit = if bodies[index].dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        };
        let mut out = Vec::new();
        let mut checked = Checked::blank(turn.snapshot(), turn.now);
        match plane.decide(turn, request, How::Plain(commit), answer, &mut checked) {
            Ok(()) => write_item(&checked, &mut out),
            Err(Undecided::Waits(wait)) => {
                items[index] = Item::Waits(wait, patience);
                order.waits(request, text);
                continue;
            }
            Err(undecided @ Undecided::TooOften(_)) => write_too_many(&undecided.into(), &mut out),
            Err(undecided) => write_problem(&undecided.into(), &mut out),
        }
        items[index] = Item::Written(out);
    }
    if !order.is_empty() {
        return Err(Unanswered::AllWait(Progress { items }));
    }
    reply.json();
    reply.body.extend_from_slice(b"{\"decisions\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            reply.body.push(b',');
        }
        if let Item::Written(written) = item {
            reply.body.extend_from_slice(written);
        }
    }
    reply.body.extend_from_slice(b"]}");
    Ok(())
}

fn at_index(index: usize, mut problem: Problem) -> Problem {
    problem.detail = format!("requests[{index}]: {}", problem.detail);
    problem
}
