//! The data plane over HTTP: checks, batches, and the question gateways ask before they forward.
//!
//! Spoken on hyper itself: three fixed routes need no router, and this path is the one that has to be fast.

mod authorize;
mod batch;
mod check;
mod forwarded;
mod server;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use ipnet::IpNet;

use crate::answer::{HeaderStyles, Problem, write_problem};
use crate::engine::Engine;
use crate::metrics::Metrics;

pub use server::{Limits, Server};

/// What every answer is.
pub type Answer = Response<Full<Bytes>>;

/// The longest body that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What the data plane needs to answer.
pub struct DataPlane {
    /// What decides.
    pub engine: Arc<Engine>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// The header styles in use.
    pub styles: HeaderStyles,
    /// From whom forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
}

impl DataPlane {
    /// Answers one request.
    pub async fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> Answer {
        let started = Instant::now();
        let answer = match request.uri().path() {
            "/v1/check" => self.post(request, check::answer).await,
            "/v1/check/batch" => self.post(request, batch::answer).await,
            "/v1/authorize" => authorize::answer(self, peer, &request),
            _ => problem_answer(&Problem::not_found()),
        };
        self.metrics.observe_request(started.elapsed());
        answer
    }

    async fn post(
        &self,
        request: Request<Incoming>,
        answer: impl FnOnce(&Self, Option<&str>, &[u8]) -> Answer,
    ) -> Answer {
        if request.method() != Method::POST {
            let mut answer = problem_answer(&Problem {
                status: 405,
                error: "method_not_allowed",
                title: "Method not allowed",
                detail: "This address takes POST.".into(),
            });
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("POST"));
            return answer;
        }
        let (head, body) = request.into_parts();
        match read_body(body).await {
            Ok(body) => answer(self, head.uri.query(), &body),
            Err(problem) => problem_answer(&problem),
        }
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Problem> {
    let too_large = || Problem {
        status: 413,
        error: "body_too_large",
        title: "Body too large",
        detail: format!("The body is longer than {MAX_BODY_BYTES} bytes."),
    };
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let collected = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad_request("The body broke off.")),
        Err(_) => Err(Problem {
            status: 408,
            error: "request_timeout",
            title: "Request timeout",
            detail: "The body took too long to arrive.".into(),
        }),
    }
}

fn problem_answer(problem: &Problem) -> Answer {
    let mut body = Vec::with_capacity(256);
    write_problem(problem, &mut body);
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json_answer(status, body);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if problem.status == 503 {
        answer
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

fn json_answer(status: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// The value of a query parameter, as it is written.
fn query_value<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let pairs = query?
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .into_iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}
