//! `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::ControlPlane;

/// Everything the server counts, as OpenMetrics text.
pub(super) async fn metrics(State(plane): State<Arc<ControlPlane>>) -> impl IntoResponse {
    let text = plane.metrics.render(&plane.engine);
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
}
