//! `POST /json` and `GET /healthcheck`, as envoyproxy/ratelimit has them.

use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Unanswered};
use crate::answer::Problem;
use crate::engine::Undecided;
use crate::rls::{Asked as Descriptors, Question, Unread, json, refusal};

/// Decides a question of a domain and descriptors.
pub(super) fn answer(
    plane: &DataPlane,
    asked: &Asked<'_, '_>,
    turn: &Turn,
    reply: &mut Reply,
) -> Result<(), Unanswered> {
    let request = json::read(asked.body)
        .map_err(|error| Problem::bad_request(format!("The body is not a rate limit request: {error}.")))?;
    let descriptors = Descriptors::of(&request);
    let question = match Question::read(&descriptors, turn.snapshot()) {
        Ok(question) => question,
        Err(Unread::Question(problem)) => return Err(problem.into()),
        Err(Unread::Value(wrong, problem)) => {
            reply.status(429);
            reply.json();
            json::write(&refusal(&descriptors, wrong, &problem), &mut reply.body);
            return Ok(());
        }
    };
    let heard = turn.answer.take().map(|answer| (turn.attempt.get(), answer));
    let decided = question.decide(plane, turn.snapshot(), turn.now, heard);
    let decided = decided.map_err(|(attempt, undecided): (usize, Undecided)| {
        turn.attempt.set(attempt);
        undecided
    })?;
    let answer = question.answer(&decided, plane);
    if !decided.is_allowed() {
        reply.status(429);
    }
    reply.json();
    json::write(&answer, &mut reply.body);
    Ok(())
}

/// Says that the server is there.
pub(super) fn health(reply: &mut Reply) {
    reply.header("content-type", b"text/plain");
    reply.body.extend_from_slice(b"OK");
}
