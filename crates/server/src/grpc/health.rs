//! `grpc.health.v1.Health`: whoever is answered is served, by every service there is, until the server stops. Before
//! that it may say for a while that it is about to.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health as Service;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::SERVICES;
use crate::serve::stopped;

/// The service.
pub(super) struct Health {
    /// Turns true when no more should be sent here.
    pub(super) draining: watch::Receiver<bool>,
    pub(super) stop: watch::Receiver<bool>,
}

/// What a watcher is sent: how the service is, that it is about to end, and at last that the server stops.
pub(super) struct Watched {
    first: Option<HealthCheckResponse>,
    draining: Option<Turn>,
    end: Option<Turn>,
}

/// Something that comes to pass once.
type Turn = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Health {
    /// How a service is; the empty name is the whole server's.
    fn status_of(&self, service: &str) -> ServingStatus {
        if !service.is_empty() && !SERVICES.contains(&service) {
            ServingStatus::ServiceUnknown
        } else if *self.draining.borrow() {
            ServingStatus::NotServing
        } else {
            ServingStatus::Serving
        }
    }
}

fn turn(mut flag: watch::Receiver<bool>) -> Turn {
    Box::pin(async move { stopped(&mut flag).await })
}

#[tonic::async_trait]
impl Service for Health {
    type WatchStream = Watched;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.status_of(&request.get_ref().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("service not registered")),
            status => Ok(Response::new(answer(status))),
        }
    }

    /// Unlike a check, a watch of a service that is not there goes on: it might come.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watched>, Status> {
        let status = self.status_of(&request.get_ref().service);
        let changes = status == ServingStatus::Serving;
        Ok(Response::new(Watched {
            first: Some(answer(status)),
            draining: changes.then(|| turn(self.draining.clone())),
            end: Some(turn(self.stop.clone())),
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
        if end.as_mut().poll(context).is_ready() {
            self.end = None;
            return Poll::Ready(Some(Err(Status::unavailable("the server stops"))));
        }
        let Some(draining) = &mut self.draining else {
            return Poll::Pending;
        };
        ready!(draining.as_mut().poll(context));
        self.draining = None;
        Poll::Ready(Some(Ok(answer(ServingStatus::NotServing))))
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
