//! `envoy.service.ratelimit.v3.RateLimitService`, for Envoy and whoever else asks as it does.

use bytes::Bytes;
use tonic::Status;

use super::message;
use super::status::{malformed, status};
use crate::clock;
use crate::data_plane::DataPlane;
use crate::rls::{Asked, Question, Unread, refusal};

/// Decides on descriptors, from message to message.
pub(super) async fn should_rate_limit(plane: &DataPlane, message: &[u8]) -> Result<Bytes, Status> {
    let asked = Asked::read(message).map_err(malformed)?;
    let (snapshot, now) = (plane.engine.snapshot_full(), clock::now());
    let question = match Question::read(&asked, &snapshot) {
        Ok(question) => question,
        Err(Unread::Question(problem)) => return Err(status(problem)),
        Err(Unread::Value(wrong, problem)) => {
            return Ok(message::framed(&refusal(&asked, wrong, &problem)));
        }
    };
    let decided = question.decide_in_time(plane, &snapshot, now).await;
    let decided = decided.map_err(|undecided| status(undecided.into()))?;
    Ok(message::framed(&question.answer(&decided, plane)))
}
