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
use crate::data_plane::{Late, MAX_REQUESTS, Order, Series, decide_late, fill_gaps};
use crate::engine::{Checked, Undecided};
use crate::wire::{Fields, write};
use crate::workers::{STEPS, Turns};

/// To read a message of so many bytes is a turn of its own.
const LONG_MESSAGE: usize = 8 * 1024;

/// The checks of a `tollgate.v1.CheckLimitsRequest`.
struct Batch<'m> {
    /// The bytes of each.
    texts: Vec<&'m [u8]>,
    /// What each asks. None of these has anything wrong with it.
    questions: Vec<Question<'m>>,
}

impl RateLimiter {
    /// Decides a batch, from message to message, in turns with whatever else the thread has to do.
    pub(super) async fn check_batch(&self, message: &[u8], turns: &Turns) -> Result<Bytes, Status> {
        if message.len() > LONG_MESSAGE {
            turns.take(STEPS as usize).await;
        }
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        // Everything is read before anything is charged.
        let (unusual, mut batch) = read(message)?;
        for (place, check) in &unusual {
            let question = Question::read(&check.body, check.with_headers, &snapshot, now);
            batch.questions[*place] = question.map_err(|problem| {
                let detail = format!("requests[{place}]: {}", problem.detail);
                status(Problem { detail, ..problem })
            })?;
        }
        let mut out = message::begin(batch.questions.len() * DECISION_BYTES);
        let decided = self.decide_at_once(&batch, (&snapshot, now), turns, &mut out);
        let (late, gaps) = decided.await;
        if late.is_empty() {
            return Ok(message::end(out));
        }
        let late = Box::pin(self.decide_late(&batch, late, (&snapshot, now))).await;
        Ok(message::end(fill_gaps(&out, &gaps, late)))
    }

    /// Writes what can be decided at once; hands back what can't, and where in the answer that belongs.
    async fn decide_at_once(
        &self,
        batch: &Batch<'_>,
        (snapshot, now): (&Snapshot, Timestamp),
        turns: &Turns,
        out: &mut Vec<u8>,
    ) -> (Vec<Late>, Vec<usize>) {
        let (mut late, mut gaps): (Vec<Late>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut order = Order::new(snapshot, now);
        let mut seen = Seen::default();
        let mut place = 0;
        for questions in batch.questions.chunks(STEPS as usize) {
            turns.take(questions.len()).await;
            let mut series = Series::of(&self.plane, snapshot, now);
            for (question, text) in questions.iter().zip(&batch.texts[place..]) {
                if order.admits(&question.check, text) {
                    let headers = self.headers(question.with_headers);
                    let decided = series.decide(&question.check, question.commit, |checked| {
                        write::long_message(1, out, |out| {
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
                        Err(undecided) => write_no_decision(undecided, out),
                    }
                } else {
                    late.push((place, None));
                    gaps.push(out.len());
                }
                place += 1;
            }
        }
        (late, gaps)
    }

    /// Decides what has to wait.
    async fn decide_late(
        &self,
        batch: &Batch<'_>,
        late: Vec<Late>,
        (snapshot, now): (&Snapshot, Timestamp),
    ) -> Vec<(usize, Vec<u8>)> {
        let check = |place: usize| {
            let question = &batch.questions[place];
            (&question.check, batch.texts[place], question.commit)
        };
        let write = |place: usize, decided| self.item(&batch.questions[place], decided);
        decide_late(&self.plane, late, (snapshot, now), check, write).await
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
