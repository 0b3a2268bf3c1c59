//! A handler that parses the same JSON and does nothing: what HTTP itself costs with axum.

use std::collections::HashMap;

use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "parsed, as a check is, and dropped")]
struct Body {
    org_id: Option<String>,
    app_id: Option<String>,
    key_id: Option<String>,
    user_id: Option<String>,
    ip: Option<String>,
    endpoint: Option<String>,
    scopes: Option<Vec<String>>,
    cost: Option<u64>,
    descriptors: Option<HashMap<String, String>>,
}

/// Serves on a free port, on one thread, and says which.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        println!("listening http={}", listener.local_addr().expect("an address"));
        let router = Router::new().route(
            "/v1/check",
            post(|Json(body): Json<Body>| async move { drop(body) }),
        );
        axum::serve(listener, router).await.expect("to serve");
    });
}
