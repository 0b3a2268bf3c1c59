//! The admin address: health, readiness, metrics and, behind the admin token, questions about policies.
//!
//! A route's path names its file; the control plane's resources will stand here beside `explain`.

mod explain;
mod health;
mod metrics;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::answer::{Problem, write_problem};
use crate::engine::Engine;
use crate::metrics::Metrics;

pub use token::{AdminToken, TokenError};

/// What the control plane needs to answer.
pub struct ControlPlane {
    /// What decides.
    pub engine: Arc<Engine>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// Who may ask.
    pub token: AdminToken,
}

/// The largest body an admin route reads.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The routes of the admin address.
pub fn router(plane: Arc<ControlPlane>) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/ratelimit/explain", post(explain::explain))
        .fallback(|| async { Problem::not_found() })
        .method_not_allowed_fallback(|| async {
            Problem {
                status: 405,
                error: "method_not_allowed",
                title: "Method not allowed",
                detail: "This address does not take that method.".into(),
            }
        })
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(plane)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Vec::new();
        write_problem(&self, &mut body);
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}
