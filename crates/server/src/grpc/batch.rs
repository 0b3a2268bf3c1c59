//! `tollgate.v1.RateLimiter`: batches, each check decided on its own, in order.
//!
//! What can be decided at once is, one check after the other, and written where it is sent from. An org of whose checks
//! one has to wait is gone on with afterwards. Orgs don't wait for each other, unless there are limits that they have in
//! common.

use std::cell::OnceCell;
use std::collections::HashMap;

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
use crate::data_plane::{MAX_REQUESTS, Series, all};
use crate::engine::{Undecided, Wait};
use crate::wire::{Fields, write};

/// The checks of an org, or of all, from one that waits on, by their places in the batch.
struct Chain {
    wait: Wait,
    places: Vec<usize>,
}

impl RateLimiter {
    /// Decides a batch, from message to message.
    pub(super) async fn check_batch(&self, message: &[u8]) -> Result<Bytes, Status> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        // Everything is read before anything is charged.
        let (unusual, mut questions) = read(message)?;
        for (place, check) in &unusual {
            let question = Question::read(&check.body, check.with_headers, &snapshot, now);
            questions[*place] = question.map_err(|problem| {
                let detail = format!("requests[{place}]: {}", problem.detail);
                status(Problem { detail, ..problem })
            })?;
        }
        let mut out = message::begin(questions.len() * DECISION_BYTES);
        // Where what is decided later belongs.
        let mut gaps: Vec<usize> = Vec::new();
        let mut waiting: HashMap<Option<&str>, Chain> = HashMap::new();
        let mut seen = Seen::default();
        let mut series = Series::of(&self.plane, &snapshot, now);
        let common = OnceCell::new();
        for (place, question) in questions.iter().enumerate() {
            let line = || match common.get_or_init(|| snapshot.has_limits_across_orgs()) {
                true => None,
                false => question.check.org,
            };
            if !waiting.is_empty()
                && let Some(chain) = waiting.get_mut(&line())
            {
                chain.places.push(place);
                gaps.push(out.len());
            } else {
                let headers = self.headers(question.with_headers);
                let decided = series.decide(&question.check, question.commit, |checked| {
                    write::long_message(1, &mut out, |out| {
                        write_decision(checked, headers, Some(&mut seen), out);
                    });
                });
                match decided {
                    Ok(()) => {}
                    Err(Undecided::Waits(wait)) => {
                        let places = vec![place];
                        waiting.insert(line(), Chain { wait, places });
                        gaps.push(out.len());
                    }
                    Err(undecided) => write_no_decision(undecided, &mut out),
                }
            }
        }
        drop(series);
        if waiting.is_empty() {
            return Ok(message::end(out));
        }
        let late = Box::pin(self.go_on(&questions, waiting, &snapshot, now)).await;
        let mut whole = Vec::with_capacity(questions.len() * DECISION_BYTES);
        let mut copied = 0;
        for (gap, (_, item)) in gaps.into_iter().zip(late) {
            whole.extend_from_slice(&out[copied..gap]);
            whole.extend(item);
            copied = gap;
        }
        whole.extend_from_slice(&out[copied..]);
        Ok(message::end(whole))
    }

    /// Decides what has to wait, and hands it back in order.
    async fn go_on(
        &self,
        questions: &[Question<'_>],
        waiting: HashMap<Option<&str>, Chain>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Vec<(usize, Vec<u8>)> {
        let chains = waiting.into_values().map(|chain| async move {
            let mut wait = Some(chain.wait);
            let mut decided = Vec::with_capacity(chain.places.len());
            for place in chain.places {
                let question = &questions[place];
                let (check, commit) = (&question.check, question.commit);
                let checked = match wait.take() {
                    Some(wait) => self.plane.decide_after(wait, snapshot, check, commit, now).await,
                    None => self.plane.decide_in_time(snapshot, check, commit, now).await,
                };
                let mut item = Vec::with_capacity(DECISION_BYTES);
                let headers = self.headers(question.with_headers);
                match checked {
                    Ok(checked) => write::long_message(1, &mut item, |out| {
                        write_decision(&checked, headers, None, out);
                    }),
                    Err(undecided) => write_no_decision(undecided, &mut item),
                }
                decided.push((place, item));
            }
            decided
        });
        let mut decided: Vec<_> = all(chains).await.into_iter().flatten().collect();
        decided.sort_by_key(|(place, _)| *place);
        decided
    }
}

/// An item of the answer that says why there is no decision.
fn write_no_decision(undecided: Undecided, out: &mut Vec<u8>) {
    write::message(1, out, |out| write_problem(undecided.into(), out));
}

/// The checks of a `tollgate.v1.CheckLimitsRequest`. Some that there is more to, with their places, are yet to become
/// questions; none of the others has anything wrong with it.
#[expect(clippy::type_complexity, reason = "two lists are not worth a name")]
fn read(message: &[u8]) -> Result<(Vec<(usize, CheckMessage<'_>)>, Vec<Question<'_>>), Status> {
    let mut unusual = Vec::new();
    let count = count(message)?;
    // Made where they are to lie, and filled there: a question is large enough for each move of it to show.
    let mut questions = Vec::with_capacity(count);
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
    Ok((unusual, questions))
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
