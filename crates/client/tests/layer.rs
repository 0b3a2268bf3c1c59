//! The layer in front of an axum service, decided by a real server.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod common;

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use common::{Server, channel, hourly, patient};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tollgate_client::{Check, CheckError, Client, LimitLayer, Limiter, OnFailure};
use tower::ServiceExt;

fn identify(request: &Request) -> Option<Check> {
    let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
    let (org_id, api_key) = (header("x-org"), header("x-api-key"));
    (org_id.is_some() || api_key.is_some()).then(|| Check {
        org_id,
        api_key,
        ..Check::default()
    })
}

fn service<L: Limiter, I>(layer: LimitLayer<L, I>) -> Router
where
    I: Fn(&Request) -> Option<Check> + Clone + Send + Sync + 'static,
{
    Router::new().route("/", get(async || "served")).layer(layer)
}

async fn ask(service: &Router, header: Option<(&str, &str)>) -> Response<Body> {
    let mut request = Request::get("/");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(Body::empty()).unwrap();
    service.clone().oneshot(request).await.unwrap()
}

async fn body(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

const ACME: Option<(&str, &str)> = Some(("x-org", "acme"));

#[tokio::test]
async fn the_allowed_are_served_and_the_denied_told_why() {
    let server = Server::start(&hourly(2), None);
    let service = service(LimitLayer::new(server.client(patient()), identify));
    for left in ["1", "0"] {
        let response = ask(&service, ACME).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["x-ratelimit-remaining"], left);
        let told = response.headers()["ratelimit"].to_str().unwrap();
        assert!(told.starts_with(&format!("\"hourly\";r={left}")), "{told}");
        assert_eq!(body(response).await, b"served");
    }
    let response = ask(&service, ACME).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(headers["x-ratelimit-scope"], "org");
    assert_eq!(headers.get_all("retry-after").iter().count(), 1);
    let problem: Value = serde_json::from_slice(&body(response).await).unwrap();
    assert_eq!(problem["error"], "rate_limit_exceeded");
    assert_eq!(problem["policy"], "hourly");
    assert_eq!(problem["scope"], "org");
    assert_eq!(problem["violated-policies"], serde_json::json!(["hourly"]));
    let wait = problem["retry_after_seconds"].as_u64().unwrap();
    assert_eq!(headers["retry-after"], wait.to_string().as_str());
    assert!((1..=3600).contains(&wait));
}

#[tokio::test]
async fn who_is_nobody_is_not_limited_and_who_lies_is_refused() {
    let server = Server::start(&hourly(2), None);
    let service = service(LimitLayer::new(server.client(patient()), identify).on_failure(OnFailure::Allow));
    for _ in 0..3 {
        let response = ask(&service, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("ratelimit"));
    }
    let unknown = ask(&service, Some(("x-api-key", "tg_live_0123456789"))).await;
    assert_eq!(unknown.status(), StatusCode::UNAUTHORIZED);
    let invalid = ask(&service, Some(("x-org", &"a".repeat(300)))).await;
    assert_eq!(invalid.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_admitted_request_is_held_back_as_long_as_it_should() {
    let queue =
        "policies: [{id: queue, scope: org, algorithm: leaky_bucket, limit: 10, window: 1s, burst: 5}]\n";
    let server = Server::start(queue, None);
    let service = service(LimitLayer::new(server.client(patient()), identify));
    let both = Instant::now();
    assert_eq!(ask(&service, ACME).await.status(), StatusCode::OK);
    let look = Instant::now();
    assert_eq!(ask(&service, ACME).await.status(), StatusCode::OK);
    // Its turn comes a tenth of a second after the first one's, less what has passed since.
    let (waited, since) = (look.elapsed(), look - both);
    assert!(
        waited + since >= Duration::from_millis(99),
        "{waited:?} after {since:?}"
    );
}

#[tokio::test]
async fn without_a_limiter_it_is_as_was_chosen_and_somebody_hears_of_it() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (on_failure, status) in [
        (OnFailure::Allow, StatusCode::OK),
        (OnFailure::Refuse, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let reports = heard.clone();
        let client = Client::new(channel(gone), patient());
        let layer = LimitLayer::new(client, identify)
            .on_failure(on_failure)
            .report(move |error| reports.lock().unwrap().push(error.clone()));
        let response = ask(&service(layer), ACME).await;
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers().contains_key("retry-after"),
            on_failure == OnFailure::Refuse
        );
        let heard = heard.lock().unwrap();
        assert!(matches!(heard[..], [CheckError::Unavailable(_)]), "{heard:?}");
    }
}
