//! Calls a service that refuses the first time, and waits as it asks to.
//!
//!     cargo run -p tollgate-client --example caller

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tollgate_client::{Patience, Retry, RetryLayer};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::main]
async fn main() -> Result<(), Infallible> {
    let asked = Arc::new(AtomicBool::new(false));
    let client = service_fn(move |_: Request<String>| {
        let mut response = Response::new("answered");
        if !asked.swap(true, Ordering::Relaxed) {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert("retry-after", 1.into());
        }
        async move { Ok::<_, Infallible>(response) }
    });
    let response = patient(client)
        .oneshot(Request::new("an order".to_owned()))
        .await?;
    println!("{}: {}", response.status(), response.body());
    Ok(())
}

/// A client that waits up to half a minute when a service says so, with a thousand requests at most.
fn patient<S>(client: S) -> Retry<S> {
    let patience = Patience {
        longest: Duration::from_secs(30),
        waiting: 1_000,
        ..Patience::default()
    };
    RetryLayer::new(patience).layer(client)
}
