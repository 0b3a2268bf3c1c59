//! The gRPC address: health, and beside it the place of the data plane's services.
//!
//! Health is for everybody who may connect. A service that decides must ask for a token as the routes over HTTP do
//! (`data_plane/token.rs`).

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::serve::stopped;
use crate::tls::{self, Address, Handshakes};

/// Serves until `stop` turns true, over TLS if there is something that makes handshakes.
pub async fn serve(
    listener: TcpListener,
    handshakes: Option<Handshakes>,
    max_connections: usize,
    stop: watch::Receiver<bool>,
) {
    let (_, health) = tonic_health::server::health_reporter();
    let router = tonic::transport::Server::builder()
        .max_concurrent_streams(1024)
        .timeout(Duration::from_secs(10))
        .add_service(health);
    let mut stopping = stop.clone();
    let end = async move { stopped(&mut stopping).await };
    let served = match handshakes {
        None => {
            let incoming = tls::incoming(listener, max_connections, stop);
            router.serve_with_incoming_shutdown(incoming, end).await
        }
        Some(handshakes) => {
            let incoming = tls::incoming_secure(listener, handshakes, Address::Grpc, max_connections, stop);
            router.serve_with_incoming_shutdown(incoming, end).await
        }
    };
    if let Err(error) = served {
        tracing::error!(%error, "the gRPC address stopped");
    }
}
