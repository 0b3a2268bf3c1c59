//! A request over gRPC, from its head to its answer.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, StatusCode};
use tollgate_proto::Message;
use tonic::Status;

use super::rate_limit_service::should_rate_limit;
use super::status::malformed;
use super::{BATCH_BYTES, Front, MESSAGE_BYTES, TIMEOUT, message, others, reply};
use crate::metrics::Protocol;

/// What is left to do for a request that has to wait.
type Rest = Pin<Box<dyn Future<Output = ()>>>;

/// What a request may ask for that decides.
#[derive(Debug, Clone, Copy)]
enum Method {
    ShouldRateLimit,
    CheckLimit,
    CheckLimits,
    Reserve,
    Settle,
    Authorize,
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
            _ => return None,
        })
    }

    fn most_bytes(self) -> usize {
        match self {
            Self::ShouldRateLimit => MESSAGE_BYTES,
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
        peer: IpAddr,
    ) -> Option<Rest> {
        let started = Instant::now();
        if let Err(refusal) = is_grpc(&request) {
            reply::refuse(&mut respond, refusal);
            return None;
        }
        if let Err(status) = self.admit(&request) {
            let _ = reply::send(&mut respond, Err(status));
            return None;
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let status = Status::resource_exhausted("as many requests are under way as may be");
            let _ = reply::send(&mut respond, Err(status));
            return None;
        };
        let front = self.clone();
        let patience = patience(request.headers());
        let Some(method) = Method::of(request.uri().path()) else {
            return Some(Box::pin(async move {
                let asked = others::ask(front.others.clone(), request);
                let answer = tokio::select! {
                    answer = tokio::time::timeout(patience, asked) => answer,
                    () = gone(&mut respond) => return,
                };
                drop(place);
                front.count(started);
                let answer = answer.unwrap_or_else(|_| late().into_http());
                let _ = others::send(answer, &mut respond).await;
            }));
        };
        let (head, body) = request.into_parts();
        let mut answer = Box::pin(front.answer(method, head.headers, body, peer));
        // Most have arrived whole and wait for nothing.
        let first = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(answer) = first {
            let large = reply::send(&mut respond, answer);
            self.count(started);
            return large.map(|message| -> Rest {
                Box::pin(async move {
                    let _ = reply::send_as_taken(&mut respond, message).await;
                    drop(place);
                })
            });
        }
        let front = self.clone();
        Some(Box::pin(async move {
            let answer = tokio::select! {
                answer = tokio::time::timeout(patience, answer) => answer.unwrap_or_else(|_| Err(late())),
                () = gone(&mut respond) => return,
            };
            let large = reply::send(&mut respond, answer);
            front.count(started);
            if let Some(message) = large {
                let _ = reply::send_as_taken(&mut respond, message).await;
            }
            drop(place);
        }))
    }

    /// Whether the caller may ask.
    fn admit(&self, request: &Request<RecvStream>) -> Result<(), Status> {
        // Health and reflection tell nobody anything, and are what is asked before there is a token.
        if self.plane.tokens.is_none() || request.uri().path().starts_with("/grpc.") {
            return Ok(());
        }
        let header = |name: &str| request.headers().get(name).map(http::HeaderValue::as_bytes);
        let admitted = self.plane.admit_caller(header);
        admitted.map_err(|problem| Status::unauthenticated(problem.detail))
    }

    async fn answer(
        self: Arc<Self>,
        method: Method,
        headers: HeaderMap,
        mut body: RecvStream,
        peer: IpAddr,
    ) -> Result<Bytes, Status> {
        let message = message::read(&headers, &mut body, method.most_bytes()).await?;
        match method {
            Method::ShouldRateLimit => should_rate_limit(&self.plane, &message).await,
            Method::CheckLimit => self.limiter.check_message(&message).await,
            Method::CheckLimits => self.limiter.check_batch(&message).await,
            Method::Reserve | Method::Settle | Method::Authorize => {
                Box::pin(self.answer_rare(method, &message, peer)).await
            }
        }
    }

    /// What is asked less often goes by prost.
    async fn answer_rare(&self, method: Method, message: &[u8], peer: IpAddr) -> Result<Bytes, Status> {
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
