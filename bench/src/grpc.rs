//! Servers of Envoy's rate limit service to be compared with: one that does nothing, and one around the limitador
//! crate. Each has one thread and says where it listens.

use std::collections::HashMap;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use limitador::RateLimiter;
use limitador::limit::{Context, Namespace};
use tonic::{Request, Response, Status};

/// Parses the question, as every server must, and answers with nothing.
struct Nothing;

#[tonic::async_trait]
impl RateLimitService for Nothing {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(RateLimitResponse::default()))
    }
}

/// What limitador-server does for the same question: the entries of the descriptor become values of a context, which is
/// checked and counted in memory.
struct Limitador(RateLimiter);

#[tonic::async_trait]
impl RateLimitService for Limitador {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let namespace = Namespace::from(request.domain);
        let entries = request.descriptors.into_iter().flat_map(|one| one.entries);
        let values: HashMap<String, String> = entries.map(|entry| (entry.key, entry.value)).collect();
        let checked = self
            .0
            .check_rate_limited_and_update(&namespace, &Context::from(values), 1);
        let limited = checked
            .map_err(|error| Status::unavailable(error.to_string()))?
            .limited;
        Ok(Response::new(RateLimitResponse {
            overall_code: if limited { 2 } else { 1 },
            ..RateLimitResponse::default()
        }))
    }
}

pub(crate) fn nothing() {
    serve(Nothing);
}

pub(crate) fn limitador() {
    serve(Limitador(crate::peers::limitador()));
}

fn serve(service: impl RateLimitService) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let incoming =
            tonic::transport::server::TcpIncoming::bind("127.0.0.1:0".parse().expect("an address"));
        let incoming = incoming.expect("a port").with_nodelay(Some(true));
        println!("listening grpc={}", incoming.local_addr().expect("an address"));
        tonic::transport::Server::builder()
            .add_service(RateLimitServiceServer::new(service))
            .serve_with_incoming(incoming)
            .await
            .expect("to serve");
    });
}
