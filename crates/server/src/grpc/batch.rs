//! `tollgate.v1.RateLimiter`: batches, each check decided on its own, in order.
//!
//! What can be decided at once is, one check after the other, and written where it is sent from. Checks that have to wait
//! are gone on with afterwards, together; those that meet a counter of one that waits come after it.

use bytes::Bytes;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tonic::Status;

use super::decision::{Seen, write_decision, write_problem};
use super::message;
use super::question::{Question, text_before_others};
use super::rate_limiter::{DECISION_BYTES, RateLimiter};
use super::status::{malformed, status};
use crate::answer::Problem;
use crate::check_body::CheckMessage;
use crate::clock;
use crate::data_plane::{MAX_REQUESTS, Order, RequiredIdentity, Sender, Series, all};
use crate::engine::{Checked, Undecided, Wait};
use crate::wire::{Fields, write};

/// A check that is not decided yet: its place in the batch, and what it waits for if it was begun.
type Late = (usize, Option<Wait>);

/// The checks of a `tollgate.v1.CheckLimitsRequest`.
struct Batch<'m> {
    /// The bytes of each.
    texts: Vec<&'m [u8]>,
    /// What each asks. None of these has anything wrong with it.
    questions: Vec<Question<'m>>,
}

impl RateLimiter {
    /// Decides a batch, from message to message.
    pub(super) async fn check_batch(&self, message: &[u8]) -> Result<Bytes, Status> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        // Everything is read before anything is charged.
        let (unusual, mut batch) = read(message)?;
        for (place, check) in &unusual {
            let question = Question::read(&check.body, check.with_headers, &snapshot, now);
            batch.questions[*place] = question.map_err(|problem| at_place(*place, &problem))?;
        }
        self.require_identities(&batch)?;
        let count = batch.questions.len();
        let mut out = message::begin(count * DECISION_BYTES);
        // Where what is decided later belongs.
        let mut gaps: Vec<usize> = Vec::new();
        let mut late: Vec<Late> = Vec::new();
        let mut order = Order::new(&snapshot, now);
        let mut seen = Seen::default();
        let mut series = Series::of(&self.plane, &snapshot, now);
        for (place, (question, text)) in batch.questions.iter().zip(&batch.texts).enumerate() {
            if !order.admits(&question.check, text) {
                late.push((place, None));
                gaps.push(out.len());
                continue;
            }
            let headers = self.headers(question.with_headers);
            let decided = series.decide(&question.check, question.commit, |checked| {
                write::long_message(1, &mut out, |out| {
                    write_decision(checked, headers, Some(&mut seen), out);
                });
            });
            match decided {
                Ok(()) => {}
                Err(Undecided::Waits(wait)) => {
                    order.waits(&question.check, text);
                    late.push((place, Some(wait)));
                    gaps.push(out.len());
                }
                Err(undecided) => write_no_decision(undecided, &mut out),
            }
        }
        drop(series);
        if late.is_empty() {
            return Ok(message::end(out));
        }
        let late = Box::pin(self.go_on(&batch, late, &snapshot, now)).await;
        let mut whole = Vec::with_capacity(count * DECISION_BYTES);
        let mut copied = 0;
        for (gap, (_, item)) in gaps.into_iter().zip(late) {
            whole.extend_from_slice(&out[copied..gap]);
            whole.extend(item);
            copied = gap;
        }
        whole.extend_from_slice(&out[copied..]);
        Ok(message::end(whole))
    }

    /// Refuses a batch of which a check lacks the identity that is required.
    fn require_identities(&self, batch: &Batch<'_>) -> Result<(), Status> {
        // A batch is large: without need nobody goes through it once more.
        if self.plane.required_identity == RequiredIdentity::Nothing {
            return Ok(());
        }
        for (place, question) in batch.questions.iter().enumerate() {
            let identified = self.plane.require_identity(&question.check, Sender::Service);
            identified.map_err(|problem| at_place(place, &problem))?;
        }
        Ok(())
    }

    /// Decides what has to wait, and hands it back in order.
    async fn go_on(
        &self,
        batch: &Batch<'_>,
        mut late: Vec<Late>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut decided = Vec::with_capacity(late.len());
        while !late.is_empty() {
            let mut order = Order::new(snapshot, now);
            let (mut waiting, mut later) = (Vec::new(), Vec::new());
            for (place, wait) in late {
                let (question, text) = (&batch.questions[place], batch.texts[place]);
                let (check, commit) = (&question.check, question.commit);
                let begun = match wait {
                    Some(wait) => Err(Undecided::Waits(wait)),
                    None if order.admits(check, text) => self.plane.decide_now(snapshot, check, commit, now),
                    None => {
                        later.push((place, None));
                        continue;
                    }
                };
                match begun {
                    Err(Undecided::Waits(wait)) => {
                        order.waits(check, text);
                        waiting.push((place, wait));
                    }
                    checked => decided.push((place, self.item(question, checked))),
                }
            }
            let waiting = waiting.into_iter().map(|(place, wait)| async move {
                let question = &batch.questions[place];
                let (check, commit) = (&question.check, question.commit);
                let checked = self.plane.decide_after(wait, snapshot, check, commit, now).await;
                (place, self.item(question, checked))
            });
            decided.extend(all(waiting).await);
            late = later;
        }
        decided.sort_by_key(|(place, _)| *place);
        decided
    }

    /// An item of the answer.
    fn item(&self, question: &Question<'_>, checked: Result<Checked<'_>, Undecided>) -> Vec<u8> {
        let mut item = Vec::with_capacity(DECISION_BYTES);
        let headers = self.headers(question.with_headers);
        match checked {
            Ok(checked) => write::long_message(1, &mut item, |out| {
                write_decision(&checked, headers, None, out);
            }),
            Err(undecided) => write_no_decision(undecided, &mut item),
        }
        item
    }
}

/// The status of a problem with one check of a batch.
fn at_place(place: usize, problem: &Problem) -> Status {
    let detail = format!("requests[{place}]: {}", problem.detail);
    status(Problem {
        detail,
        ..problem.clone()
    })
}

/// An item of the answer that says why there is no decision.
fn write_no_decision(undecided: Undecided, out: &mut Vec<u8>) {
    write::message(1, out, |out| write_problem(undecided.into(), out));
}

/// Checks that there is more to than most, with their places.
type Unusual<'m> = Vec<(usize, CheckMessage<'m>)>;

/// The checks of a message. The unusual ones are yet to become questions.
fn read(message: &[u8]) -> Result<(Unusual<'_>, Batch<'_>), Status> {
    let mut unusual = Vec::new();
    let count = count(message)?;
    // Made where they are to lie, and filled there: a question is large enough for each move of it to show.
    let (mut raw, mut questions) = (Vec::with_capacity(count), Vec::with_capacity(count));
    questions.extend(std::iter::repeat_with(Question::blank).take(count));
    let texts = text_before_others(message);
    let mut fields = Fields::of(message);
    let mut blank = questions.iter_mut().enumerate();
    while let Some((number, value)) = fields.next().map_err(malformed)? {
        if number != 1 {
            continue;
        }
        let check = value.bytes().map_err(malformed)?;
        let Some((place, question)) = blank.next() else {
            break;
        };
        raw.push(check);
        let end = message.len() - fields.left();
        let text = texts.get(end - check.len()..end);
        let text = text.unwrap_or_else(|| text_before_others(check));
        if question.fill(check, text).is_some() {
            continue;
        }
        let check = CheckMessage::read(Fields::of(check)).map_err(malformed)?;
        if check.has_key {
            let message = format!("requests[{place}]: `idempotency_key` is for single checks.");
            return Err(Status::invalid_argument(message));
        }
        unusual.push((place, check));
    }
    let batch = Batch {
        texts: raw,
        questions,
    };
    Ok((unusual, batch))
}

/// How many checks a batch has.
fn count(message: &[u8]) -> Result<usize, Status> {
    let mut fields = Fields::of(message);
    let mut count = 0;
    while let Some((number, _)) = fields.next().map_err(malformed)? {
        count += usize::from(number == 1);
        if count > MAX_REQUESTS {
            let message = format!("`requests` must have at most {MAX_REQUESTS} items.");
            return Err(Status::invalid_argument(message));
        }
    }
    Ok(count)
}
