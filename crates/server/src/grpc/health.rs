//! `grpc.health.v1.Health`: whoever is answered is served, by every service there is, until the server stops.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_stream::Stream;
use tollgate_proto::Message;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health as Service;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::status::malformed;
use super::{SERVICES, message};
use crate::serve::stopped;

/// The service.
pub(super) struct Health {
    pub(super) stop: watch::Receiver<bool>,
}

/// What somebody who watches hears: how it is, and at last that the server stops.
pub(super) struct Watched {
    first: Option<HealthCheckResponse>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

#[tonic::async_trait]
impl Service for Health {
    type WatchStream = Watched;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        checked(request.get_ref()).map(Response::new)
    }

    /// Unlike a check, a watch of a service that is not there goes on: it might come.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watched>, Status> {
        let mut stop = self.stop.clone();
        Ok(Response::new(Watched {
            first: Some(answer(status_of(&request.get_ref().service))),
            end: Some(Box::pin(async move { stopped(&mut stop).await })),
        }))
    }
}

impl Stream for Watched {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(end) = &mut self.end else {
            return Poll::Ready(None);
        };
        ready!(end.as_mut().poll(context));
        self.end = None;
        Poll::Ready(Some(Err(Status::unavailable("the server stops"))))
    }
}

/// Answers a check from message to message: what is asked this often should wait for nothing.
pub(super) fn check(message: &[u8]) -> Result<Bytes, Status> {
    let request = HealthCheckRequest::decode(message).map_err(malformed)?;
    Ok(message::framed(&checked(&request)?))
}

fn checked(request: &HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
    match status_of(&request.service) {
        ServingStatus::ServiceUnknown => Err(Status::not_found("service not registered")),
        status => Ok(answer(status)),
    }
}

/// How a service is; the empty name is the whole server's.
fn status_of(service: &str) -> ServingStatus {
    if service.is_empty() || SERVICES.contains(&service) {
        ServingStatus::Serving
    } else {
        ServingStatus::ServiceUnknown
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
