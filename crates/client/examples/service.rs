//! A service of which each customer may have ten orders a minute made.
//!
//!     cargo run -p tollgate-client --features embedded --example service -- policies.yaml
//!     cargo run -p tollgate-client --features embedded --example service -- http://127.0.0.1:8081

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use tollgate_client::{Check, Client, Embedded, LimitLayer, Limiter, OnFailure, Settings};
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = std::env::args()
        .nth(1)
        .unwrap_or("http://127.0.0.1:8081".to_owned());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let service = if limiter.starts_with("http") {
        // Decided by a server. The connection is made when it is needed.
        let channel = Endpoint::from_shared(limiter)?.connect_lazy();
        service(Client::new(channel, Settings::default()))
    } else {
        // Decided here.
        service(Embedded::open(limiter)?)
    };
    axum::serve(listener, service).await?;
    Ok(())
}

/// The service behind a limiter.
pub fn service(limiter: impl Limiter) -> Router {
    let limits = LimitLayer::new(limiter, identify)
        .on_failure(OnFailure::Allow)
        .report(|error| eprintln!("not limited: {error}"));
    Router::new()
        .route("/orders", post(async || "made\n"))
        .layer(limits)
}

/// Who asks for what. Believe such a header only if a gateway sets it; an API key can be told as it came, in `api_key`.
fn identify(request: &Request) -> Option<Check> {
    let org = request.headers().get("x-org")?.to_str().ok()?;
    Some(Check {
        org_id: Some(org.to_owned()),
        endpoint: Some(format!("{} {}", request.method(), request.uri().path())),
        ..Check::default()
    })
}
