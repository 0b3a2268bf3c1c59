//! A request over gRPC, from its head to its answer.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, StatusCode};
use tollgate_proto::Message;
use tonic::Status;

use super::client::{Client, Probe};
use super::rate_limit_service::should_rate_limit;
use super::status::malformed;
use super::{
    BATCH_BYTES, Front, MESSAGE_BYTES, PROBE_BYTES, PROBE_TIMEOUT, TIMEOUT, health, message, others, reply,
};
use crate::metrics::Protocol;
use crate::workers::Holding;

/// What is left to do for a request that has to wait.
type Rest = Pin<Box<dyn Future<Output = ()>>>;

/// What a request may ask for that is answered by one message.
#[derive(Debug, Clone, Copy)]
enum Method {
    ShouldRateLimit,
    CheckLimit,
    CheckLimits,
    Reserve,
    Settle,
    Authorize,
    /// Whether the server is there.
    Health,
}

impl Method {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Self::ShouldRateLimit,
            "/tollgate.v1.RateLimiter/CheckLimit" => Self::CheckLimit,
            "/tollgate.v1.RateLimiter/CheckLimits" => Self::CheckLimits,
            "/tollgate.v1.RateLimiter/Reserve" => Self::Reserve,
            "/tollgate.v1.RateLimiter/Settle" => Self::Settle,
            "/envoy.service.auth.v3.Authorization/Check" => Self::Authorize,
            "/grpc.health.v1.Health/Check" => Self::Health,
            _ => return None,
        })
    }

    fn most_bytes(self) -> usize {
        match self {
            Self::ShouldRateLimit => MESSAGE_BYTES,
            Self::Health => PROBE_BYTES,
            _ => BATCH_BYTES,
        }
    }
}

impl Front {
    /// Answers a request at once if that can be; else hands back what is left to do.
    pub(super) fn begin(
        self: &Arc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        client: &Rc<Client>,
    ) -> Option<Rest> {
        let started = Instant::now();
        if let Err(refusal) = is_grpc(&request) {
            reply::refuse(&mut respond, refusal);
            return None;
        }
        let probe = match self.admit(&request, client) {
            Ok(probe) => probe,
            Err(status) => {
                let _ = reply::send(&mut respond, Err(status));
                return None;
            }
        };
        let patience = patience(request.headers());
        let Some(method) = Method::of(request.uri().path()) else {
            if probe.is_none() {
                client.line.mark_known();
            }
            return Some(self.clone().stream(request, respond, probe, patience));
        };
        let (head, body) = request.into_parts();
        let mut answer = Box::pin(self.clone().answer(method, head.headers, body, client.clone()));
        // Most have arrived whole and wait for nothing.
        let first = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(answer) = first {
            let unread = reply::send(&mut respond, answer);
            self.count(started);
            return unread.map(|unread| -> Rest { Box::pin(unread.send(self.part_of_unread(client))) });
        }
        let (front, client) = (self.clone(), client.clone());
        Some(Box::pin(async move {
            let answer = tokio::select! {
                answer = tokio::time::timeout(patience, answer) => answer.unwrap_or_else(|_| Err(late())),
                () = gone(&mut respond) => return,
            };
            drop(probe);
            let unread = reply::send(&mut respond, answer);
            front.count(started);
            if let Some(unread) = unread {
                unread.send(front.part_of_unread(&client)).await;
            }
        }))
    }

    /// Has a request answered by a service that streams.
    fn stream(
        self: Arc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        probe: Option<Probe>,
        patience: Duration,
    ) -> Rest {
        let started = Instant::now();
        // Who shows a token where one is needed may watch for as long as the server is there.
        let known = || self.plane.tokens.is_some() && self.has_token(&request).is_ok();
        let most = (probe.is_some() && !known()).then_some(PROBE_TIMEOUT);
        Box::pin(async move {
            let asked = others::ask(self.others.clone(), request);
            let answer = tokio::select! {
                answer = tokio::time::timeout(patience, asked) => answer,
                () = gone(&mut respond) => return,
            };
            self.count(started);
            let answer = answer.unwrap_or_else(|_| late().into_http());
            let _ = others::send(answer, &mut respond, most).await;
            drop(probe);
        })
    }

    fn part_of_unread(&self, client: &Client) -> Holding {
        self.bounds.unread.part_of(client.line.peer)
    }

    /// Lets a request through whose caller may ask. Health and reflection tell nobody anything, and are what is asked
    /// before there is a token; whoever asks for them takes no place from those who have one.
    fn admit(&self, request: &Request<RecvStream>, client: &Rc<Client>) -> Result<Option<Probe>, Status> {
        if request.uri().path().starts_with("/grpc.") {
            return client.probes(&self.bounds).map(Some);
        }
        if self.plane.tokens.is_some() {
            self.has_token(request)?;
        }
        Ok(None)
    }

    fn has_token(&self, request: &Request<RecvStream>) -> Result<(), Status> {
        let header = |name: &str| request.headers().get(name).map(http::HeaderValue::as_bytes);
        let admitted = self.plane.admit_caller(header);
        admitted.map_err(|problem| Status::unauthenticated(problem.detail))
    }

    async fn answer(
        self: Arc<Self>,
        method: Method,
        headers: HeaderMap,
        mut body: RecvStream,
        client: Rc<Client>,
    ) -> Result<Bytes, Status> {
        let message = message::read(&headers, &mut body, method.most_bytes(), &client).await?;
        if matches!(method, Method::Health) {
            return health::check(&message);
        }
        client.line.mark_known();
        // From here on it is under way; before, only its client knows when it will be.
        let _place = client.decides(&self.bounds.deciding, message.len())?;
        match method {
            Method::ShouldRateLimit => should_rate_limit(&self.plane, &message).await,
            Method::CheckLimit => self.limiter.check_message(&message).await,
            Method::CheckLimits => self.limiter.check_batch(&message, &client.line.turns).await,
            _ => Box::pin(self.answer_rare(method, &message, client.line.peer)).await,
        }
    }

    /// What is asked less often goes by prost.
    async fn answer_rare(
        &self,
        method: Method,
        message: &[u8],
        peer: std::net::IpAddr,
    ) -> Result<Bytes, Status> {
        Ok(match method {
            Method::Reserve => message::framed(&self.limiter.reserve(decode(message)?).await?),
            Method::Settle => message::framed(&self.limiter.settle(decode(message)?).await?),
            _ => message::framed(&self.authorization.check(decode(message)?, peer).await),
        })
    }

    fn count(&self, started: Instant) {
        let took = started.elapsed();
        self.plane.metrics.observe_request(Protocol::Grpc, took);
    }
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Status> {
    M::decode(message).map_err(malformed)
}

/// Whether this is gRPC at all, and what it is refused with.
fn is_grpc(request: &Request<RecvStream>) -> Result<(), StatusCode> {
    if request.method() != http::Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    match kind.and_then(|kind| kind.as_bytes().strip_prefix(b"application/grpc")) {
        Some([] | [b'+' | b';', ..]) => Ok(()),
        _ => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// How long a request may take: as long as any, unless its client waits less.
fn patience(headers: &HeaderMap) -> Duration {
    let wanted = headers
        .get("grpc-timeout")
        .and_then(|given| read_timeout(given.as_bytes()));
    wanted.map_or(TIMEOUT, |wanted| wanted.min(TIMEOUT))
}

/// Up to eight digits and a unit.
fn read_timeout(given: &[u8]) -> Option<Duration> {
    let (unit, digits) = given.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

fn late() -> Status {
    Status::deadline_exceeded("the request took too long")
}

/// Comes back once the client does not want the answer any more.
async fn gone(respond: &mut SendResponse<Bytes>) {
    let _ = std::future::poll_fn(|context| respond.poll_reset(context)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        for (given, expected) in [
            ("2H", Some(Duration::from_hours(2))),
            ("1M", Some(Duration::from_mins(1))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("100000000S", None),
            ("1s", None),
            ("+1S", None),
            ("1.5S", None),
        ] {
            assert_eq!(read_timeout(given.as_bytes()), expected, "{given}");
        }
    }
}
