//! `tollgate.v1.RateLimiter`: checks.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_proto::Message;
use tollgate_proto::v1::{CheckLimitRequest, CheckLimitResponse};
use tonic::Status;

use super::decision::{decision, write_decision};
use super::message;
use super::question::{Question, text_before_others};
use super::status::{malformed, status};
use crate::answer::HeaderStyles;
use crate::check_body::{CheckBody, CheckMessage};
use crate::clock;
use crate::data_plane::{DataPlane, Sender};
use crate::wire::Fields;

/// What most decisions take up.
pub(super) const DECISION_BYTES: usize = 256;

/// The service, which may also be asked without a connection.
pub struct RateLimiter {
    pub(super) plane: Arc<DataPlane>,
}

impl RateLimiter {
    /// The service of a data plane.
    pub fn new(plane: Arc<DataPlane>) -> Self {
        Self { plane }
    }

    /// Decides one request. A denial is an answer, not an error.
    pub async fn check_limit(&self, request: &CheckLimitRequest) -> Result<CheckLimitResponse, Status> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let body = CheckBody::from(request);
        let question = Question::read(&body, request.with_headers(), &snapshot, now).map_err(status)?;
        self.require_identity(&question)?;
        if request.idempotency_key.is_some() {
            let answer = self.answer_once(request, &question, &snapshot, now).await;
            return answer.map_err(status);
        }
        let decided = self
            .plane
            .decide_in_time(&snapshot, &question.check, question.commit, now);
        let checked = decided.await.map_err(|undecided| status(undecided.into()))?;
        Ok(decision(&checked, self.headers(question.with_headers)))
    }

    /// The same from message to message.
    pub(super) async fn check_message(&self, message: &[u8]) -> Result<Bytes, Status> {
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let unusual;
        let mut question = Question::blank();
        if question.fill(message, text_before_others(message)).is_none() {
            unusual = CheckMessage::read(Fields::of(message)).map_err(malformed)?;
            if unusual.has_key {
                let request = CheckLimitRequest::decode(message).map_err(malformed)?;
                return Ok(message::framed(&Box::pin(self.check_limit(&request)).await?));
            }
            question = Question::read(&unusual.body, unusual.with_headers, &snapshot, now).map_err(status)?;
        }
        self.require_identity(&question)?;
        let decided = self
            .plane
            .decide_in_time(&snapshot, &question.check, question.commit, now);
        let checked = decided.await.map_err(|undecided| status(undecided.into()))?;
        let mut out = message::begin(DECISION_BYTES);
        let headers = self.headers(question.with_headers);
        write_decision(&checked, headers, None, &mut out);
        Ok(message::end(out))
    }

    /// Refuses a check that lacks the identity that is required.
    #[inline]
    pub(super) fn require_identity(&self, question: &Question<'_>) -> Result<(), Status> {
        let identified = self.plane.require_identity(&question.check, Sender::Service);
        identified.map_err(status)
    }

    /// How the headers of an answer are written, if it is to have some.
    pub(super) fn headers(&self, wanted: bool) -> Option<HeaderStyles> {
        wanted.then_some(self.plane.styles)
    }
}
