//! Whoever carries checks to the server: all that wait go with the next call.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tollgate_proto::v1::CheckLimitsRequest;
use tollgate_proto::v1::rate_limiter_client::RateLimiterClient;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::client::Settings;
use crate::{Check, CheckError, Decision};

/// A check that waits to be sent.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) check: Check,
    pub(crate) answer: oneshot::Sender<Result<Decision, CheckError>>,
}

#[derive(Clone)]
pub(crate) struct Carrier {
    server: RateLimiterClient<Channel>,
    settings: Arc<Settings>,
}

impl Carrier {
    pub(crate) fn new(channel: Channel, settings: Settings) -> Self {
        Self {
            server: RateLimiterClient::new(channel),
            settings: Arc::new(settings),
        }
    }

    /// Carries checks until nobody is left who could bring one.
    pub(crate) async fn carry(self, mut queue: mpsc::Receiver<Waiting>) {
        let places = Arc::new(Semaphore::new(self.settings.calls.max(1)));
        let most = self.settings.batch.max(1);
        let mut batch = Vec::with_capacity(most);
        while queue.recv_many(&mut batch, most).await > 0 {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            // What has come meanwhile goes along, and whoever has stopped waiting is not charged.
            while batch.len() < most
                && let Ok(more) = queue.try_recv()
            {
                batch.push(more);
            }
            batch.retain(|waiting| !waiting.answer.is_closed());
            if !batch.is_empty() {
                tokio::spawn(self.clone().ask(std::mem::take(&mut batch), place));
            }
        }
    }

    async fn ask(mut self, batch: Vec<Waiting>, _place: OwnedSemaphorePermit) {
        let (checks, answers): (Vec<Check>, Vec<_>) = batch
            .into_iter()
            .map(|waiting| (waiting.check, waiting.answer))
            .unzip();
        if let [check] = &checks[..] {
            let decided = self.ask_one(check.clone()).await;
            return tell(answers, std::iter::once(decided));
        }
        let requests = CheckLimitsRequest {
            requests: checks.clone(),
        };
        match self.server.check_limits(self.request(requests)).await {
            Ok(response) => {
                let decisions = response.into_inner().decisions.into_iter();
                tell(answers, decisions.map(decided));
            }
            // One that is wrong leaves all undecided: the others can't help it.
            Err(status) if is_about_one(&status) => {
                for (check, answer) in checks.into_iter().zip(answers) {
                    let _ = answer.send(self.ask_one(check).await);
                }
            }
            Err(status) => {
                let says = checks
                    .iter()
                    .map(|check| Err(CheckError::of(&status, check.api_key.is_some())));
                tell(answers, says);
            }
        }
    }

    async fn ask_one(&mut self, check: Check) -> Result<Decision, CheckError> {
        let has_key = check.api_key.is_some();
        match self.server.check_limit(self.request(check)).await {
            Ok(response) => decided(response.into_inner()),
            Err(status) => Err(CheckError::of(&status, has_key)),
        }
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.settings.deadline);
        if let Some(token) = &self.settings.token {
            request.metadata_mut().insert("x-tollgate-token", token.clone());
        }
        request
    }
}

fn tell(
    answers: Vec<oneshot::Sender<Result<Decision, CheckError>>>,
    mut says: impl Iterator<Item = Result<Decision, CheckError>>,
) {
    for answer in answers {
        let missing = || Err(CheckError::Unavailable("the answer is too short".to_owned()));
        // Whoever has stopped waiting does not hear it.
        let _ = answer.send(says.next().unwrap_or_else(missing));
    }
}

fn decided(decision: Decision) -> Result<Decision, CheckError> {
    match decision.problem {
        Some(problem) => Err(CheckError::Unavailable(problem.message)),
        None => Ok(decision),
    }
}

/// Whether a batch failed for one of its checks, or for being too long.
fn is_about_one(status: &Status) -> bool {
    let one = matches!(status.code(), Code::InvalidArgument | Code::Unauthenticated)
        && status.message().starts_with("requests[");
    one || status.code() == Code::OutOfRange
}
