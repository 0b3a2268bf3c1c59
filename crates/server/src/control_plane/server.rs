//! The server of the admin address. Connections are served one by one, since axum's own server would leave the
//! header timeout without a timer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::access::Peer;
use super::{ControlPlane, router};
use crate::serve::stopped;
use crate::tls::{Address, Handshakes};

/// Connections open at once, handshakes included.
const MAX_CONNECTIONS: usize = 256;

/// Serves until `stop` turns true, over TLS if there is something that makes handshakes.
pub async fn serve(
    listener: TcpListener,
    plane: Arc<ControlPlane>,
    handshakes: Option<Handshakes>,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router(plane));
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => return,
        };
        let Ok((stream, address)) = accepted else { continue };
        // Past the cap a connection is closed at once: probes notice, and nothing piles up.
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let service = Known {
            peer: Peer(address.ip()),
            routes: service.clone(),
        };
        let (handshakes, stop) = (handshakes.clone(), stop.clone());
        tokio::spawn(async move {
            match handshakes {
                None => answer(stream, service, stop).await,
                Some(handshakes) => secure(stream, &handshakes, service, stop).await,
            }
            drop(slot);
        });
    }
}

/// The routes, as somebody asks for them whose address is known.
struct Known {
    peer: Peer,
    routes: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for Known {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.routes.call(request)
    }
}

async fn secure(stream: TcpStream, handshakes: &Handshakes, service: Known, stop: watch::Receiver<bool>) {
    let Ok(stream) = stream.into_std() else { return };
    let Some((stream, session)) = handshakes.make(Address::Admin, stream).await else {
        return;
    };
    let Ok(stream) = TcpStream::from_std(stream) else {
        return;
    };
    if let Ok(stream) = session.take_up(stream).await {
        answer(stream, service, stop).await;
    }
}

/// Answers the requests of a connection.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: Known,
    mut stop: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(5), connection).await;
        }
    }
}
