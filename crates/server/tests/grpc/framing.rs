//! What gRPC says of messages and heads, piece by piece.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::common::{Server, file_of, hourly};
use crate::frames::{message, question};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A connection that sends whatever it is told to.
struct Sender {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    http: u16,
    headers: HeaderMap,
    /// The status, from the trailers or from a head without any.
    grpc: Option<i32>,
    body: Vec<u8>,
}

impl Sender {
    fn to(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = server.grpc;
        let requests = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (requests, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            requests
        });
        Self { runtime, requests }
    }

    /// Sends a head.
    fn begin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::builder().method(method).uri(format!("http://a{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone();
        self.runtime.block_on(async {
            std::future::poll_fn(|context| requests.poll_ready(context))
                .await
                .unwrap();
            requests.send_request(request.body(()).unwrap(), false).unwrap()
        })
    }

    /// Sends a request whose body comes in pieces, and waits for what comes back.
    fn ask(&self, path: &str, headers: &[(&str, &str)], pieces: &[&[u8]]) -> Answer {
        let (response, mut stream) = self.begin(Method::POST, path, headers);
        for piece in pieces {
            stream.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
        self.runtime
            .block_on(async { whole(response.await.unwrap()).await })
    }
}

async fn whole(response: Response<RecvStream>) -> Answer {
    let (head, mut body) = response.into_parts();
    let mut answer = Answer {
        http: head.status.as_u16(),
        grpc: status(&head.headers),
        headers: head.headers,
        body: Vec::new(),
    };
    while let Some(Ok(piece)) = body.data().await {
        answer.body.extend_from_slice(&piece);
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        answer.grpc = status(&trailers);
    }
    answer
}

fn status(headers: &HeaderMap) -> Option<i32> {
    headers.get("grpc-status")?.to_str().unwrap().parse().ok()
}

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[])
}

#[test]
fn a_message_may_come_in_any_pieces() {
    let server = server();
    let sender = Sender::to(&server);
    let framed = message(&question("acme"));
    let bytes: Vec<&[u8]> = framed.chunks(1).collect();
    let halves: Vec<&[u8]> = vec![&framed[..9], b"", &framed[9..]];
    for pieces in [vec![&framed[..]], bytes, halves] {
        let answer = sender.ask(PATH, &[GRPC], &pieces);
        assert_eq!((answer.http, answer.grpc), (200, Some(0)), "{answer:?}");
        assert_eq!(answer.body[0], 0);
        let length = u32::from_be_bytes(answer.body[1..5].try_into().unwrap());
        assert_eq!(answer.body.len() - 5, usize::try_from(length).unwrap());
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 47);
}

#[test]
fn what_is_no_message_gets_a_status_and_charges_nothing() {
    let server = server();
    let sender = Sender::to(&server);
    let good = message(&question("acme"));
    let compressed = [&[1], &good[1..]].concat();
    let strange = [&[7], &good[1..]].concat();
    let twice = [&good[..], &good].concat();
    for (name, pieces) in [
        ("nothing", vec![]),
        ("a part of a prefix", vec![&good[..3]]),
        ("a prefix alone", vec![&good[..5]]),
        ("a part of a message", vec![&good[..8]]),
        ("compressed, it does not say how", vec![&compressed[..]]),
        ("an unknown flag", vec![&strange[..]]),
        ("two messages", vec![&twice[..]]),
        ("two messages in pieces", vec![&good[..], &good[..2], &good[2..]]),
    ] {
        let answer = sender.ask(PATH, &[GRPC], &pieces);
        assert_eq!((answer.http, answer.grpc), (200, Some(13)), "{name}: {answer:?}");
        assert!(answer.body.is_empty(), "{name}");
    }
    let answer = sender.ask(PATH, &[GRPC, ("grpc-encoding", "gzip")], &[&compressed]);
    assert_eq!(answer.grpc, Some(12), "{answer:?}");
    assert_eq!(answer.headers["grpc-accept-encoding"], "identity");
    let answer = sender.ask(PATH, &[GRPC, ("grpc-encoding", "identity")], &[&good]);
    assert_eq!(answer.grpc, Some(0));
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 49);
}

#[test]
fn a_message_that_would_be_too_long_is_not_waited_for() {
    let server = server();
    let sender = Sender::to(&server);
    for (path, most) in [
        (PATH, 128 << 10),
        ("/tollgate.v1.RateLimiter/CheckLimits", 1 << 20),
    ] {
        let (response, mut stream) = sender.begin(Method::POST, path, &[GRPC]);
        let prefix = [&[0][..], &u32::to_be_bytes(most + 1)].concat();
        stream.send_data(prefix.into(), false).unwrap();
        let answer = sender
            .runtime
            .block_on(async { whole(response.await.unwrap()).await });
        assert_eq!(answer.grpc, Some(11), "{answer:?}");
    }
}

#[test]
fn methods_that_are_not_there_are_unimplemented() {
    let server = server();
    let sender = Sender::to(&server);
    for path in [
        "/envoy.service.ratelimit.v3.RateLimitService/Other",
        "/tollgate.v1.RateLimiter/CheckLimitz",
        "/nobody/Nothing",
        "/",
    ] {
        let answer = sender.ask(path, &[GRPC], &[&message(&question("acme"))]);
        assert_eq!((answer.http, answer.grpc), (200, Some(12)), "{path}: {answer:?}");
    }
}

#[test]
fn what_is_no_grpc_is_refused_as_http_does() {
    let server = server();
    let sender = Sender::to(&server);
    let good = message(&question("acme"));
    for kind in [
        &[("content-type", "application/json")][..],
        &[("content-type", "application/grpc-web")],
        &[],
    ] {
        let answer = sender.ask(PATH, kind, &[&good]);
        assert_eq!((answer.http, answer.grpc), (415, None), "{answer:?}");
    }
    for kind in ["application/grpc+proto", "application/grpc;charset=utf-8"] {
        let answer = sender.ask(PATH, &[("content-type", kind)], &[&good]);
        assert_eq!(answer.grpc, Some(0), "{kind}: {answer:?}");
    }
    let (response, mut stream) = sender.begin(Method::GET, PATH, &[GRPC]);
    stream.send_data(Bytes::new(), true).unwrap();
    let answer = sender
        .runtime
        .block_on(async { whole(response.await.unwrap()).await });
    assert_eq!(answer.http, 405);
}

#[test]
fn a_client_that_waits_less_is_answered_sooner() {
    let server = server();
    let sender = Sender::to(&server);
    // Neither's message comes.
    let (patient, _open) = sender.begin(Method::POST, PATH, &[GRPC]);
    let (hasty, _open_too) = sender.begin(Method::POST, PATH, &[GRPC, ("grpc-timeout", "20m")]);
    let answer = sender.runtime.block_on(async {
        tokio::select! {
            biased;
            _ = patient => panic!("who waits longer was answered first"),
            answer = hasty => whole(answer.unwrap()).await,
        }
    });
    assert_eq!(answer.grpc, Some(4), "{answer:?}");
}
