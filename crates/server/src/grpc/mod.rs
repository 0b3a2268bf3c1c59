//! The data plane over gRPC, on the threads of [`crate::workers`] (docs/adr/0012-grpc-without-a-framework.md).
//!
//! [`connection`] speaks HTTP/2 by the `h2` crate, [`call`] has a request answered, [`message`] and [`reply`] are
//! gRPC's framing, [`client`] bounds what one connection takes up. Each service that decides is a file, with functions
//! from message to message. [`others`] leads to services that stream, which are tonic's: Envoy's quotas, health and
//! reflection. The latter two are for everybody who may connect; for all else a token is asked for as over HTTP.

mod authorization;
mod batch;
mod call;
mod client;
mod connection;
mod decision;
mod gathered;
mod health;
mod message;
mod others;
mod passed_on;
mod question;
mod rate_limit_quota_service;
mod rate_limit_service;
mod rate_limiter;
mod reply;
mod reserving;
mod status;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use crate::data_plane::DataPlane;
use crate::tls::Address;
use crate::workers::{self, Budget, Line};
use authorization::Authorization;
use health::Health;
use rate_limit_quota_service::RateLimitQuotaService;

pub use rate_limiter::RateLimiter;

/// Streams that one connection may have open at a time.
const STREAMS: u32 = 1024;
/// Requests that may be decided at a time: those that have arrived whole and wait for the shared store, say.
const DECIDING: usize = 4096;
/// Calls to health and reflection that may be open beyond the few that each connection has: in all, and of one peer.
const PROBES: usize = 2048;
const PROBES_OF_PEER: usize = 512;
/// Bytes of answers that clients have not taken: in all, and those of one peer.
const UNREAD_BYTES: usize = 256 * 1024 * 1024;
const UNREAD_BYTES_OF_PEER: usize = 128 * 1024 * 1024;
/// A message takes up so much before it counts towards the bounds for all of them.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// The largest message: that of a batch, and that of anything else.
const BATCH_BYTES: usize = 1024 * 1024;
const MESSAGE_BYTES: usize = 128 * 1024;
/// The largest report, which has all buckets of an Envoy.
const REPORT_BYTES: usize = 4 * 1024 * 1024;
/// The largest message to health.
const PROBE_BYTES: usize = 4 * 1024;
/// The largest head of a request.
const HEADER_BYTES: u32 = 16 * 1024;
/// What a client may send before it is told that there is room for more.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// How long a request may take, from its head to its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stream may be open that needs no token.
const PROBE_TIMEOUT: Duration = Duration::from_mins(10);
/// A connection on which nothing comes is asked after so long whether anybody is there.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// The services, apart from health and reflection.
const SERVICES: [&str; 4] = [
    "tollgate.v1.RateLimiter",
    "envoy.service.ratelimit.v3.RateLimitService",
    "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
    "envoy.service.auth.v3.Authorization",
];

/// gRPC, spoken with callers and Envoy.
#[derive(Clone)]
pub struct Grpc(Arc<Front>);

/// What the gRPC front needs to answer.
struct Front {
    plane: Arc<DataPlane>,
    limiter: RateLimiter,
    authorization: Authorization,
    others: Routes,
    bounds: Bounds,
    stop: watch::Receiver<bool>,
}

/// What all connections together may take up, beside what each may.
struct Bounds {
    deciding: Semaphore,
    probes: Arc<Budget>,
    unread: Arc<Budget>,
}

impl Grpc {
    /// The front of a data plane. Connections take no further requests once `stop` turns true.
    pub fn new(
        plane: Arc<DataPlane>,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(Arc::new(Front {
            limiter: RateLimiter::new(plane.clone()),
            authorization: Authorization::new(plane.clone()),
            others: streaming(plane.clone(), stop.clone())?,
            plane,
            bounds: Bounds {
                deciding: Semaphore::new(DECIDING),
                probes: Budget::new(PROBES, PROBES_OF_PEER),
                unread: Budget::new(UNREAD_BYTES, UNREAD_BYTES_OF_PEER),
            },
            stop,
        })))
    }
}

impl workers::Protocol for Grpc {
    const ADDRESS: Address = Address::Grpc;

    async fn serve(self, line: Line, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        connection::serve(self.0, line, stream).await;
    }
}

/// The services that are tonic's.
fn streaming(
    plane: Arc<DataPlane>,
    stop: watch::Receiver<bool>,
) -> Result<Routes, tonic_reflection::server::Error> {
    let health = HealthServer::new(Health { stop: stop.clone() });
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tollgate_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tollgate_proto::ENVOY_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let quotas = RateLimitQuotaServiceServer::new(RateLimitQuotaService::new(plane, stop));
    let routes = Routes::new(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(quotas.max_decoding_message_size(REPORT_BYTES));
    Ok(routes.prepare())
}
