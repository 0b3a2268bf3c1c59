//! `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::ControlPlane;
use super::openapi::replies;
use super::route::{Group, Route};
use super::rule::Rule;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Metrics",
        about: "What the server counts; no token is asked for.",
        routes: vec![
            Route::get("/metrics", metrics, "getMetrics", "Everything the server counts")
                .by(Rule::Anyone)
                .answers(
                    200,
                    replies::text("OpenMetrics text.", "application/openmetrics-text"),
                ),
        ],
    }
}

/// Everything the server counts, as OpenMetrics text.
pub(super) async fn metrics(State(plane): State<Arc<ControlPlane>>) -> impl IntoResponse {
    let text = plane.metrics.render(&plane.engine, plane.fleet.as_ref());
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
}
