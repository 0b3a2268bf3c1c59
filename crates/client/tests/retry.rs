//! The layer of the calling side.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode};
use tollgate_client::{Patience, RetryLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

/// When the service answers, as it says.
const DATE: &str = "Fri, 31 Dec 2027 23:59:59 GMT";

/// A service that refuses so many requests, and counts all.
fn refusing(
    refused: u32,
    retry_after: &'static str,
) -> (
    impl Service<Request<()>, Response = Response<u32>, Error = Infallible, Future: Send> + Clone,
    Arc<AtomicU32>,
) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let service = service_fn(move |_: Request<()>| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(number);
        if number < refused {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response
                .headers_mut()
                .insert("retry-after", retry_after.parse().unwrap());
            response.headers_mut().insert("date", DATE.parse().unwrap());
        }
        async move { Ok(response) }
    });
    (service, count)
}

fn patience() -> Patience {
    Patience {
        jitter: Duration::ZERO,
        ..Patience::default()
    }
}

async fn ask<S>(layer: &RetryLayer, service: S) -> StatusCode
where
    S: Service<Request<()>, Response = Response<u32>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    let service = layer.layer(service);
    service.oneshot(Request::new(())).await.unwrap().status()
}

#[tokio::test]
async fn waits_what_it_is_told_and_asks_again() {
    for retry_after in ["1", "Sat, 01 Jan 2028 00:00:00 GMT"] {
        let (service, count) = refusing(1, retry_after);
        let began = Instant::now();
        let status = ask(&RetryLayer::new(patience()), service).await;
        assert_eq!((status, count.load(Ordering::Relaxed)), (StatusCode::OK, 2));
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn past_its_patience_the_caller_hears_the_refusal() {
    for (retry_after, sent) in [
        ("0", 4),
        ("61", 1),
        (DATE, 4),
        ("Sat, 01 Jan 2028 00:01:00 GMT", 1),
        ("soon", 1),
    ] {
        let (service, count) = refusing(10, retry_after);
        let status = ask(&RetryLayer::new(patience()), service).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(count.load(Ordering::Relaxed), sent, "{retry_after}");
    }
}

#[tokio::test]
async fn only_so_many_wait_and_the_others_hear_the_refusal_at_once() {
    let layer = RetryLayer::new(Patience {
        waiting: 2,
        times: 1,
        ..patience()
    });
    let (service, count) = refusing(5, "1");
    let all = (0..5).map(|_| {
        let (layer, service) = (layer.clone(), service.clone());
        async move { ask(&layer, service).await }
    });
    let mut set = tokio::task::JoinSet::new();
    for one in all {
        set.spawn(one);
    }
    let heard = set.join_all().await;
    let refused = heard.iter().filter(|status| **status != StatusCode::OK).count();
    assert_eq!(refused, 3, "{heard:?}");
    assert_eq!(count.load(Ordering::Relaxed), 7);
}
