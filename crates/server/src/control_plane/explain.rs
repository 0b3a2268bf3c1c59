//! `POST /v1/ratelimit/explain`: which policies apply to a request, which don't, and why.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};

use super::ControlPlane;
use crate::answer::Problem;
use crate::check_body::{CheckBody, read_object};
use crate::clock;
use crate::explanation::explain as explain_request;

/// Takes a check's body; charges nothing.
pub(super) async fn explain(
    State(plane): State<Arc<ControlPlane>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match answer(&plane, &headers, &body) {
        Ok(answer) => answer,
        Err(problem) => problem.into_response(),
    }
}

fn answer(plane: &ControlPlane, headers: &HeaderMap, body: &[u8]) -> Result<Response, Problem> {
    plane.token.admit(headers)?;
    let body: CheckBody<'_> = read_object(body)
        .map_err(|error| Problem::bad_request(format!("The body is not a check: {error}.")))?;
    let request = body.request()?;
    let snapshot = plane.engine.snapshot();
    let explanation = explain_request(&plane.engine, &snapshot, &request, clock::now())?;
    Ok(Json(explanation).into_response())
}
