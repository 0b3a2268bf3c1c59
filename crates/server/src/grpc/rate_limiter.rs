//! `tollgate.v1.RateLimiter`: checks and batches.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_catalog::Request as Check;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{Mode, Retry, Timestamp};
use tollgate_counters::Commit;
use tollgate_proto::v1::rate_limiter_server::RateLimiter as Service;
use tollgate_proto::v1::{
    CheckLimitRequest, CheckLimitResponse, CheckLimitsRequest, CheckLimitsResponse, Denial, Header, Limit,
    Problem as ProblemMessage, ReserveRequest, ReserveResponse, SettleRequest, SettleResponse,
};
use tonic::{Request, Response, Status};

use super::status::status;
use crate::answer::{
    Problem, denial_error, denial_message, millis_up, mode_name, retry_after_seconds, rfc3339, write_headers,
};
use crate::check_body::CheckBody;
use crate::clock;
use crate::data_plane::{DataPlane, MAX_REQUESTS, all};
use crate::engine::Checked;

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

impl RateLimiter {
    /// The service of a data plane.
    pub fn new(plane: Arc<DataPlane>) -> Self {
        Self { plane }
    }

    async fn answer(
        &self,
        question: &Question<'_>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Result<CheckLimitResponse, Problem> {
        let decided = self
            .plane
            .decide_in_time(snapshot, &question.check, question.commit, now);
        let checked = decided.await?;
        Ok(self.write(&checked, question.with_headers))
    }

    /// An item of a batch, which says itself why there is no decision.
    async fn answer_item(
        &self,
        question: &Question<'_>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> CheckLimitResponse {
        match self.answer(question, snapshot, now).await {
            Ok(decision) => decision,
            Err(problem) => CheckLimitResponse {
                problem: Some(ProblemMessage {
                    error: problem.error.to_owned(),
                    message: problem.detail,
                }),
                ..CheckLimitResponse::default()
            },
        }
    }

    pub(super) fn write(&self, checked: &Checked<'_>, with_headers: bool) -> CheckLimitResponse {
        let decision = &checked.decision;
        let binding = decision.binding.map(|place| checked.stack.limits[place]);
        let mut headers = Vec::new();
        if with_headers {
            write_headers(checked, self.plane.styles, &mut |name, value| {
                headers.push(Header {
                    name: name.to_owned(),
                    value: String::from_utf8_lossy(value).into_owned(),
                });
            });
        }
        CheckLimitResponse {
            allowed: decision.allowed,
            scope: binding.map(|limit| limit.scope_name.to_string()),
            policy_id: binding.map(|limit| limit.id.to_string()),
            remaining: decision.remaining,
            retry_after_ms: match decision.retry {
                Retry::After(wait) => Some(millis(wait)),
                Retry::Never => None,
            },
            delay_ms: millis(decision.delay),
            degraded: checked.degraded,
            limits: (0..decision.outcomes.len())
                .map(|place| limit(checked, place))
                .collect(),
            denial: (!decision.allowed).then(|| denial(checked)),
            headers,
            problem: None,
        }
    }
}

#[tonic::async_trait]
impl Service for RateLimiter {
    async fn check_limit(
        &self,
        request: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        let request = request.into_inner();
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        let body = CheckBody::from(&request);
        let question = read(&body, &request, &snapshot, now).map_err(status)?;
        let answer = match request.idempotency_key {
            None => self.answer(&question, &snapshot, now).await,
            Some(_) => self.answer_once(&request, &question, &snapshot, now).await,
        };
        answer.map(Response::new).map_err(status)
    }

    async fn reserve(&self, request: Request<ReserveRequest>) -> Result<Response<ReserveResponse>, Status> {
        let reserved = self.reserve_once(request.into_inner()).await;
        reserved.map(Response::new).map_err(status)
    }

    async fn settle(&self, request: Request<SettleRequest>) -> Result<Response<SettleResponse>, Status> {
        let settled = self.settle_once(request.into_inner()).await;
        settled.map(Response::new).map_err(status)
    }

    async fn check_limits(
        &self,
        request: Request<CheckLimitsRequest>,
    ) -> Result<Response<CheckLimitsResponse>, Status> {
        let CheckLimitsRequest { requests } = request.into_inner();
        if requests.len() > MAX_REQUESTS {
            let message = format!("`requests` must have at most {MAX_REQUESTS} items.");
            return Err(Status::invalid_argument(message));
        }
        let (snapshot, now) = (self.plane.engine.snapshot_full(), clock::now());
        if requests.iter().any(|request| request.idempotency_key.is_some()) {
            let message = "`idempotency_key` is for single checks.";
            return Err(Status::invalid_argument(message));
        }
        let bodies: Vec<CheckBody<'_>> = requests.iter().map(CheckBody::from).collect();
        // Everything is read before anything is charged.
        let mut questions = Vec::with_capacity(requests.len());
        for (index, (body, request)) in bodies.iter().zip(&requests).enumerate() {
            let question = read(body, request, &snapshot, now).map_err(|problem| {
                let detail = format!("requests[{index}]: {}", problem.detail);
                status(Problem { detail, ..problem })
            });
            questions.push(question?);
        }
        let mut decisions: Vec<CheckLimitResponse> = Vec::with_capacity(questions.len());
        if !self.plane.engine.may_wait() {
            // Nobody waits for anything.
            for question in &questions {
                decisions.push(self.answer_item(question, &snapshot, now).await);
            }
            return Ok(Response::new(CheckLimitsResponse { decisions }));
        }
        // Those of an org come one after the other; orgs don't wait for each other.
        let mut orgs: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
        for (index, question) in questions.iter().enumerate() {
            orgs.entry(question.check.org).or_default().push(index);
        }
        let (questions, snapshot) = (&questions, &snapshot);
        let chains = orgs.into_values().map(|chain| async move {
            let mut decided = Vec::with_capacity(chain.len());
            for index in chain {
                let answer = self.answer_item(&questions[index], snapshot, now);
                decided.push((index, answer.await));
            }
            decided
        });
        let mut decided: Vec<_> = all(chains).await.into_iter().flatten().collect();
        decided.sort_by_key(|(index, _)| *index);
        decisions.extend(decided.into_iter().map(|(_, decision)| decision));
        Ok(Response::new(CheckLimitsResponse { decisions }))
    }
}

pub(super) fn read<'r>(
    body: &'r CheckBody<'r>,
    request: &CheckLimitRequest,
    snapshot: &'r Snapshot,
    now: Timestamp,
) -> Result<Question<'r>, Problem> {
    Ok(Question {
        check: body.request(Some(snapshot), now)?,
        commit: if body.dry_run() {
            Commit::DryRun
        } else {
            Commit::Charge
        },
        with_headers: request.with_headers(),
    })
}

fn limit(checked: &Checked<'_>, place: usize) -> Limit {
    let (limit, level) = (checked.stack.limits[place], &checked.stack.levels[place]);
    let outcome = &checked.decision.outcomes[place];
    let reset = outcome.reset(level, checked.now);
    let mut reset_at = Vec::with_capacity(24);
    rfc3339(checked.now, reset, &mut reset_at);
    Limit {
        policy_id: limit.id.to_string(),
        scope: limit.scope_name.to_string(),
        limit: limit.rule.limit,
        remaining: outcome.remaining,
        reset_ms: millis(reset),
        reset_at: String::from_utf8_lossy(&reset_at).into_owned(),
        mode: mode_name(level.mode).to_owned(),
        violated: !outcome.fits,
    }
}

fn denial(checked: &Checked<'_>) -> Denial {
    let binding = checked.decision.binding.map(|place| checked.stack.limits[place]);
    let levels = checked.stack.levels.iter().zip(&checked.decision.outcomes);
    let violated = levels
        .zip(&checked.stack.limits)
        .filter(|((level, outcome), _)| !outcome.fits && level.mode == Mode::Enforce);
    Denial {
        error: denial_error(checked).0.to_owned(),
        message: denial_message(checked),
        limit_type: binding.map_or("", |limit| limit.limit_type()).to_owned(),
        violated_policies: violated.map(|(_, limit)| limit.id.to_string()).collect(),
        retry_after_seconds: retry_after_seconds(checked)
            .map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX)),
    }
}

fn millis(nanos: tollgate_core::Nanos) -> u64 {
    u64::try_from(millis_up(nanos)).unwrap_or(u64::MAX)
}
