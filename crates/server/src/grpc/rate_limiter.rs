//! `tollgate.v1.RateLimiter`: checks.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_catalog::Request as Check;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;
use tollgate_proto::Message;
use tollgate_proto::v1::{CheckLimitRequest, CheckLimitResponse};
use tonic::Status;

use super::decision::{Seen, decision, write_decision};
use super::message;
use super::status::{malformed, status};
use crate::answer::{HeaderStyles, Problem};
use crate::check_body::{CheckBody, CheckMessage};
use crate::clock;
use crate::data_plane::DataPlane;
use crate::wire::Fields;

/// What most decisions take up.
pub(super) const DECISION_BYTES: usize = 256;

/// The service, which may also be asked without a connection.
pub struct RateLimiter {
    pub(super) plane: Arc<DataPlane>,
}

/// A check that was read.
pub(super) struct Question<'r> {
    pub(super) check: Check<'r>,
    pub(super) commit: Commit,
    pub(super) with_headers: bool,
}

impl<'r> Question<'r> {
    pub(super) fn read(
        body: &'r CheckBody<'r>,
        with_headers: bool,
        snapshot: &'r Snapshot,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        Ok(Self {
            check: body.request(Some(snapshot), now)?,
            commit: if body.dry_run() {
                Commit::DryRun
            } else {
                Commit::Charge
            },
            with_headers,
        })
    }
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
        let read = CheckMessage::read(Fields::of(message)).map_err(malformed)?;
        if read.has_key {
            let request = CheckLimitRequest::decode(message).map_err(malformed)?;
            return Ok(message::framed(&Box::pin(self.check_limit(&request)).await?));
        }
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let question = Question::read(&read.body, read.with_headers, &snapshot, now).map_err(status)?;
        let decided = self
            .plane
            .decide_in_time(&snapshot, &question.check, question.commit, now);
        let checked = decided.await.map_err(|undecided| status(undecided.into()))?;
        let mut out = message::begin(DECISION_BYTES);
        let headers = self.headers(question.with_headers);
        write_decision(&checked, headers, &mut Seen::default(), &mut out);
        Ok(message::end(out))
    }

    /// How the headers of an answer are written, if it is to have some.
    pub(super) fn headers(&self, wanted: bool) -> Option<HeaderStyles> {
        wanted.then_some(self.plane.styles)
    }
}
