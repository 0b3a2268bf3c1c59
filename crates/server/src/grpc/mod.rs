//! The data plane over gRPC. Each service is a file; what they have in common is here and in [`gate`].
//!
//! Health and reflection are for everybody who may connect. A service that decides is behind the gate, which asks for
//! a token as the routes over HTTP do and bounds how much is under way at a time.

mod authorization;
mod gate;
mod rate_limit_service;
mod rate_limiter;
mod reserving;
mod status;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use envoy_types::pb::envoy::service::auth::v3::authorization_server::AuthorizationServer;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use tokio::sync::watch;
use tollgate_proto::v1::rate_limiter_server::RateLimiterServer;

use crate::data_plane::DataPlane;
use crate::serve::stopped;
use crate::tls::{self, Address, Handshakes};
use authorization::Authorization;
use gate::GateLayer;
use rate_limit_service::RateLimitService;

pub use rate_limiter::RateLimiter;

/// Streams that one connection may have open at a time.
const STREAMS: u32 = 1024;
/// The largest message: that of a batch, and that of anything else.
const BATCH_BYTES: usize = 1024 * 1024;
const MESSAGE_BYTES: usize = 128 * 1024;
/// The largest head of a request.
const HEADER_BYTES: u32 = 16 * 1024;
/// How long a request may take, from its head to its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way are waited for at the end.
const DRAIN: Duration = Duration::from_secs(10);
/// A connection on which nothing comes is asked after so long whether anybody is there.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// What is served, and how.
pub struct Grpc {
    /// The address, bound.
    pub listener: TcpListener,
    /// What decides.
    pub plane: Arc<DataPlane>,
    /// What makes handshakes, over TLS.
    pub handshakes: Option<Handshakes>,
    /// Connections open at most.
    pub max_connections: usize,
    /// Threads that serve.
    pub threads: usize,
}

impl Grpc {
    /// Serves on threads of its own until `stop` turns true, and then until what is under way is answered. The
    /// thread that is handed back ends with it.
    pub fn start(self, stop: watch::Receiver<bool>) -> std::io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_name("grpc")
            .enable_all()
            .build()?;
        self.listener.set_nonblocking(true)?;
        let thread = std::thread::Builder::new().name("grpc".to_owned());
        thread.spawn(move || {
            if let Err(error) = runtime.block_on(self.serve(stop)) {
                tracing::error!(%error, "the gRPC address stopped");
            }
            // Whoever still holds a stream open is not waited for.
            runtime.shutdown_background();
        })
    }

    async fn serve(self, mut stop: watch::Receiver<bool>) -> Result<(), Box<dyn std::error::Error>> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<RateLimiterServer<RateLimiter>>().await;
        reporter
            .set_serving::<RateLimitServiceServer<RateLimitService>>()
            .await;
        reporter.set_serving::<AuthorizationServer<Authorization>>().await;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tollgate_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tollgate_proto::ENVOY_DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let own = RateLimiterServer::new(RateLimiter::new(self.plane.clone()));
        let envoy = RateLimitServiceServer::new(RateLimitService::new(self.plane.clone()));
        let authorization = AuthorizationServer::new(Authorization::new(self.plane.clone()));
        let router = tonic::transport::Server::builder()
            .max_concurrent_streams(STREAMS)
            .http2_max_header_list_size(HEADER_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .timeout(TIMEOUT)
            .layer(GateLayer::new(self.plane))
            .add_service(health)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?)
            .add_service(own.max_decoding_message_size(BATCH_BYTES))
            .add_service(envoy.max_decoding_message_size(MESSAGE_BYTES))
            .add_service(authorization.max_decoding_message_size(BATCH_BYTES));
        let (most, stopping) = (self.max_connections, stop.clone());
        let mut ending = stop.clone();
        let end = async move { stopped(&mut ending).await };
        let served = async move {
            match self.handshakes {
                None => {
                    let incoming = tls::incoming(listener, most, stopping);
                    router.serve_with_incoming_shutdown(incoming, end).await
                }
                Some(handshakes) => {
                    let incoming = tls::incoming_secure(listener, handshakes, Address::Grpc, most, stopping);
                    router.serve_with_incoming_shutdown(incoming, end).await
                }
            }
        };
        let late = async move {
            stopped(&mut stop).await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = served => Ok(served?),
            () = late => {
                tracing::warn!("some gRPC streams were still open after the drain time");
                Ok(())
            }
        }
    }
}
