//! `GET /healthz` and `GET /readyz`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::ControlPlane;
use super::openapi::{of, replies};
use super::readiness::Standing;
use super::route::{Group, Route};
use super::rule::Rule;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Health",
        about: "For probes and scrapers; no token is asked for.",
        routes: vec![
            Route::get("/healthz", healthz, "getHealth", "Whether the process runs")
                .by(Rule::Anyone)
                .answers(200, replies::text("It does.", "text/plain")),
            Route::get(
                "/readyz",
                readyz,
                "getReadiness",
                "Readiness, and what is in force",
            )
            .by(Rule::Anyone)
            .answers(
                200,
                replies::plain(
                    "Decisions can be made, perhaps without some part (`degraded`).",
                    "application/json",
                    &of("Readiness"),
                ),
            )
            .answers(
                503,
                replies::plain(
                    "The server is about to drain; or a part is unavailable, and \
                         `--ready-when-degraded` is off.",
                    "application/json",
                    &of("Readiness"),
                ),
            ),
        ],
    }
}

/// The process runs.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness for a balancer's probe, and what is in force.
pub(super) async fn readyz(State(plane): State<Arc<ControlPlane>>) -> Response {
    let snapshot = plane.engine.snapshot();
    let file = plane.metrics.policy_file_standing().name();
    let standing = Standing::of(&plane);
    let status = StatusCode::from_u16(standing.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let body = Json(json!({
        "status": standing.name,
        "degraded": standing.degraded,
        "store": match &plane.fleet {
            None => "memory",
            Some(fleet) if fleet.is_away() => "away",
            Some(_) => "redis",
        },
        "storeTrouble": plane.fleet.as_ref().and_then(|fleet| fleet.trouble()),
        "catalogue": if plane.metrics.is_catalogue_away() { "away" } else { plane.catalogue.repository().backend() },
        "catalogueRevision": plane.catalogue.revision(),
        "catalogueFrom": plane.metrics.catalogue_origin().name(),
        "policyFile": plane.catalogue.file().given.then_some(file),
        "policyRevision": plane.metrics.revision(),
        "policies": snapshot.limits().len(),
        "orgs": snapshot.org_count(),
    }));
    (status, body).into_response()
}
