//! Decisions in this process, and the example service as it stands in the documentation.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod common;

#[path = "../examples/service.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod example;

use axum::body::Body;
use axum::extract::Request;
use common::{Server, hourly, of_org, patient};
use http::StatusCode;
use tempfile::TempDir;
use tollgate_client::{Embedded, Limiter};
use tower::ServiceExt;

fn policy_file(text: &str) -> (TempDir, std::path::PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

#[tokio::test]
async fn decides_here_and_follows_its_file_when_told() {
    let (_dir, path) = policy_file(&hourly(2));
    let limiter = Embedded::open(&path).unwrap();
    assert_eq!(limiter.check(of_org("acme")).await.unwrap().remaining, Some(1));
    std::fs::write(&path, hourly(10)).unwrap();
    limiter.reload().unwrap();
    assert_eq!(limiter.check(of_org("acme")).await.unwrap().remaining, Some(8));
    std::fs::write(&path, "policies: [{id: x}]\n").unwrap();
    let error = limiter.reload().unwrap_err().to_string();
    assert!(error.contains("policies.yaml"), "{error}");
    assert_eq!(limiter.check(of_org("acme")).await.unwrap().remaining, Some(7));
    assert!(Embedded::open(path.with_file_name("none.yaml")).is_err());
}

/// Makes orders until one is refused.
async fn orders_made(limiter: impl Limiter) -> u32 {
    let service = example::service(limiter);
    for made in 0..100 {
        let order = Request::post("/orders").header("x-org", "acme");
        let order = order.body(Body::empty()).unwrap();
        let response = service.clone().oneshot(order).await.unwrap();
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            assert!(response.headers().contains_key("retry-after"));
            return made;
        }
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().contains_key("ratelimit"));
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn the_example_is_limited_alike_by_a_server_and_in_process() {
    let (_dir, path) = policy_file(&hourly(10));
    assert_eq!(orders_made(Embedded::open(&path).unwrap()).await, 10);
    let server = Server::start(&hourly(10), None);
    assert_eq!(orders_made(server.client(patient())).await, 10);
}

#[test]
fn the_documentation_shows_code_that_runs() {
    let root = env!("CARGO_MANIFEST_DIR");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let docs = read("../../docs/client.md");
    let code = read("examples/service.rs") + &read("examples/caller.rs");
    let blocks: Vec<&str> = docs
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        assert!(code.contains(block), "not in the examples:\n{block}");
    }
}
