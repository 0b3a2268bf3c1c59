//! `GET /healthz` and `GET /readyz`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};
use tollgate_catalog::repository::Kind;

use super::ControlPlane;
use super::openapi::{of, replies};
use super::readiness::Standing;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::fleet::unshared;

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

/// How many of those that have no effect are named.
const MAX_LEFT_OUT: usize = 20;

/// What of the catalogue has no effect here. Nobody has to say who they are to see this, so it names no org.
fn left_out(plane: &ControlPlane) -> Vec<Value> {
    let left_out = plane.catalogue.left_out();
    let named = left_out.iter().take(MAX_LEFT_OUT).map(|(place, why)| {
        let id = (!matches!(place.kind, Kind::Org | Kind::User)).then_some(&place.id);
        let why = if why.starts_with("there is no org") {
            "its org is not there"
        } else {
            why
        };
        json!({"kind": place.kind.name(), "id": id, "why": why})
    });
    named.collect()
}

/// What an operator should know.
fn warnings(plane: &ControlPlane) -> Vec<&'static str> {
    let demonstrates = plane.catalogue.demonstrates().then_some(
        "the built-in demonstration set is in force; --policies or the first policy made by API takes its place",
    );
    let backend = plane.catalogue.repository().backend();
    let unshared = plane.fleet.is_some().then(|| unshared(backend)).flatten();
    demonstrates.into_iter().chain(unshared).collect()
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
        "warnings": warnings(&plane),
        "leftOut": left_out(&plane),
        "leftOutCount": plane.catalogue.left_out().len(),
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
