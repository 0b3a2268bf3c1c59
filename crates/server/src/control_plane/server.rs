//! The server of the admin address, on a thread of its own. Connections are served one by one, since axum's own server
//! would leave the header timeout without a timer.
//!
//! Nobody keeps probes and scrapers out. A peer has a share of the places; whoever finds none is still let in, at the
//! [side door](SideDoor), where only probes are answered, at once. And what probes ask is answered on this thread, while
//! all other routes are carried out on the control plane's, whatever they take there.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Method, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::access::Peer;
use super::patience::Patient;
use super::seats::{Seat, Seats};
use super::{ControlPlane, router};
use crate::answer::Problem;
use crate::serve::stopped;
use crate::tls::{Address, Handshakes};

/// How long the head of a request may take to arrive, and a connection to send its next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The same at the side door: a probe sends its request at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections that are open at the side door at once.
const MAX_PROBES: usize = 64;
/// How long a client may take nothing of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests are waited for at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after a connection could not be accepted.
const RETRY: Duration = Duration::from_millis(10);
/// What probes and scrapers ask for.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Serves on a thread of its own until `stop` turns true, over TLS if there is something that makes handshakes. Must be
/// called within the runtime that carries routes out.
pub fn serve(
    listener: std::net::TcpListener,
    plane: Arc<ControlPlane>,
    handshakes: Option<Handshakes>,
    stop: watch::Receiver<bool>,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    let routes = Routes {
        router: TowerToHyperService::new(router(plane)),
        home: Handle::current(),
    };
    let thread = std::thread::Builder::new().name("admin".to_owned());
    let thread = thread.spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, routes, handshakes, stop).await,
                Err(error) => tracing::error!("the admin address can't be served: {error}"),
            }
        });
    })?;
    Ok(tokio::task::spawn_blocking(move || drop(thread.join())))
}

async fn accept(
    listener: TcpListener,
    routes: Routes,
    handshakes: Option<Handshakes>,
    mut stop: watch::Receiver<bool>,
) {
    let seats = Arc::new(Seats::default());
    let mut side_door = SideDoor::default();
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            () = stopped(&mut stop) => break,
        };
        let Ok((stream, address)) = accepted else {
            // Out of file descriptors, perhaps: trying again at once would keep this thread from all else.
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let seat = seats.take(address.ip()).map(Arc::new);
        let is_probe = seat.is_none();
        let service = Known {
            peer: Peer(address.ip()),
            routes: routes.clone(),
            seat,
        };
        let served = connection(stream, handshakes.clone(), service, stop.clone());
        let task = open.spawn(served);
        if is_probe {
            side_door.let_in(task);
        }
    }
    drop(listener);
    let drained = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
}

/// Connections beyond all places, or beyond a peer's share. The one that has waited longest goes when there are too many:
/// a probe has its answer by then, and who is silent has lost nothing.
#[derive(Default)]
struct SideDoor {
    open: VecDeque<AbortHandle>,
}

impl SideDoor {
    fn let_in(&mut self, task: AbortHandle) {
        self.open.retain(|task| !task.is_finished());
        if self.open.len() >= MAX_PROBES
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.abort();
        }
        self.open.push_back(task);
    }
}

/// The routes, and where they are carried out.
#[derive(Clone)]
struct Routes {
    router: TowerToHyperService<Router>,
    home: Handle,
}

/// The routes, as somebody asks for them whose address is known.
struct Known {
    peer: Peer,
    routes: Routes,
    /// The place of the connection; one at the side door has none.
    seat: Option<Arc<Seat>>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Service<Request<Incoming>> for Known {
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        request.extensions_mut().insert(self.peer);
        let is_probe = PROBES.contains(&request.uri().path());
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if is_probe && only_reads {
            return Box::pin(self.routes.router.call(request));
        }
        let Some(seat) = self.seat.clone() else {
            return Box::pin(std::future::ready(Ok(crowded())));
        };
        let answer = self.routes.router.call(request);
        let task = self.routes.home.spawn(async move {
            let answer = answer.await;
            drop(seat);
            answer
        });
        // A write is finished even if its client hangs up meanwhile, so that whoever sends it again finds it done. Whoever
        // only reads needs no more.
        let reading = only_reads.then(|| EndsWithIt(task.abort_handle()));
        Box::pin(async move {
            let answer = task.await;
            drop(reading);
            answer.unwrap_or_else(|error| {
                tracing::error!("a route of the control plane broke off: {error}");
                Ok(broken().into_response())
            })
        })
    }
}

/// Ends a task when it is dropped.
struct EndsWithIt(AbortHandle);

impl Drop for EndsWithIt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is told when a route breaks off.
fn broken() -> Problem {
    Problem {
        status: 500,
        error: "internal",
        title: "Internal error",
        detail: "The request could not be carried out, by a fault of this server.".into(),
    }
}

/// What is told at the side door to who wants more than probes do.
fn crowded() -> Response {
    let problem = Problem {
        status: 503,
        error: "too_many_connections",
        title: "Too many connections",
        detail: "This address, or all of them together, has too many connections open to the control plane."
            .into(),
    };
    let mut response = problem.into_response();
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn connection(
    stream: TcpStream,
    handshakes: Option<Handshakes>,
    service: Known,
    stop: watch::Receiver<bool>,
) {
    match handshakes {
        None => answer(stream, service, stop).await,
        Some(handshakes) => secure(stream, &handshakes, service, stop).await,
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
    let is_seated = service.seat.is_some();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if is_seated { HEAD_TIMEOUT } else { PROBE_TIMEOUT })
        .keep_alive(is_seated)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(Patient::new(stream, WRITE_TIMEOUT)), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, connection).await;
        }
    }
}
