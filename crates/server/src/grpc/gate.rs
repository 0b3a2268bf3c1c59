//! What every request over gRPC passes before it is read: whether its caller may ask, and whether there is room.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::data_plane::DataPlane;
use crate::metrics::Protocol;

/// Requests that may be under way at a time, those included that have not arrived whole: with the largest message
/// this bounds what they take of the memory.
const UNDER_WAY: usize = 2048;

/// Puts the gate before the services.
#[derive(Clone)]
pub(super) struct GateLayer {
    plane: Arc<DataPlane>,
    places: Arc<Semaphore>,
}

/// The services behind the gate.
#[derive(Clone)]
pub(super) struct Gate<S> {
    services: S,
    layer: GateLayer,
}

impl GateLayer {
    pub(super) fn new(plane: Arc<DataPlane>) -> Self {
        Self {
            plane,
            places: Arc::new(Semaphore::new(UNDER_WAY)),
        }
    }

    fn admit(&self, request: &Request<Body>) -> Result<(), Status> {
        // Health and reflection tell nobody anything, and are what is asked before there is a token.
        if request.uri().path().starts_with("/grpc.") {
            return Ok(());
        }
        let header = |name: &str| request.headers().get(name).map(http::HeaderValue::as_bytes);
        let admitted = self.plane.admit_caller(header);
        admitted.map_err(|problem| Status::unauthenticated(problem.detail))
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, services: S) -> Gate<S> {
        Gate {
            services,
            layer: self.clone(),
        }
    }
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.services.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let started = Instant::now();
        if let Err(status) = self.layer.admit(&request) {
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let Ok(permit) = self.layer.places.clone().try_acquire_owned() else {
            let status = Status::resource_exhausted("as many requests are under way as may be");
            return Box::pin(async move { Ok(status.into_http()) });
        };
        let (answer, plane) = (self.services.call(request), self.layer.plane.clone());
        Box::pin(async move {
            let answer = answer.await;
            drop(permit);
            plane.metrics.observe_request(Protocol::Grpc, started.elapsed());
            answer
        })
    }
}
