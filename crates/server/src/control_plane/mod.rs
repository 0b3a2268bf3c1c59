//! The admin address: health, readiness, metrics and, behind a token, the catalogue.
//!
//! A route's path names its file. [`ask`] reads who asks and what for, [`write`] is the way all writes go,
//! [`answer`] what comes back.

mod access;
mod answer;
mod apps;
mod ask;
mod audit;
mod belongings;
mod effective;
mod endpoint_classes;
mod explain;
mod health;
mod idempotency;
mod keys;
pub mod limits;
mod lists;
mod metrics;
pub mod oidc;
mod orgs;
mod overrides;
mod policies;
mod reset;
pub mod role;
mod rollouts;
mod server;
mod tiers;
mod token;
mod tokens;
mod users;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::answer::{Problem, write_problem};
use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::metrics::Metrics;

pub use limits::Limits;
pub use oidc::Oidc;
pub use server::serve;
pub use token::{AdminToken, TokenError};

/// What the control plane needs to answer.
pub struct ControlPlane {
    /// What decides.
    pub engine: Arc<Engine>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// The token of whoever may do everything.
    pub token: AdminToken,
    /// The issuer of other tokens, if there is one.
    pub oidc: Option<Arc<Oidc>>,
    /// How often it may be asked, unless anything goes.
    pub limits: Option<Arc<Limits>>,
    /// What can be changed.
    pub catalogue: Arc<Catalogue>,
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
        .route("/v1/ratelimit/policies", get(policies::index).put(policies::put))
        .route(
            "/v1/ratelimit/policies/{id}",
            get(policies::get).delete(policies::delete),
        )
        .route(
            "/v1/ratelimit/endpoint-classes",
            get(endpoint_classes::get).put(endpoint_classes::put),
        )
        .route(
            "/v1/ratelimit/rollouts",
            get(rollouts::index).post(rollouts::post),
        )
        .route(
            "/v1/ratelimit/rollouts/{id}",
            get(rollouts::get).put(rollouts::put).delete(rollouts::delete),
        )
        .route("/v1/ratelimit/rollouts/{id}/promote", post(rollouts::promote))
        .route("/v1/ratelimit/rollouts/{id}/rollback", post(rollouts::rollback))
        .route("/v1/tiers", get(tiers::index))
        .route(
            "/v1/tiers/{tier}",
            get(tiers::get).put(tiers::put).delete(tiers::delete),
        )
        .route("/v1/orgs", get(orgs::index))
        .route(
            "/v1/orgs/{org}",
            get(orgs::get).put(orgs::put).delete(orgs::delete),
        )
        .route("/v1/orgs/{org}/audit", get(audit::of_org))
        .route("/v1/orgs/{org}/ratelimit/policies", get(effective::get))
        .route("/v1/orgs/{org}/ratelimit/reset", post(reset::post))
        .route("/v1/orgs/{org}/users", get(users::index))
        .route(
            "/v1/orgs/{org}/users/{user}",
            get(users::get).put(users::put).delete(users::delete),
        )
        .route("/v1/orgs/{org}/apps", get(apps::index))
        .route(
            "/v1/orgs/{org}/apps/{app}",
            get(apps::get).put(apps::put).delete(apps::delete),
        )
        .route(
            "/v1/orgs/{org}/apps/{app}/keys",
            get(keys::index).post(keys::post),
        )
        .route(
            "/v1/orgs/{org}/apps/{app}/keys/{key}",
            get(keys::get).delete(keys::delete),
        )
        .route("/v1/orgs/{org}/apps/{app}/keys/{key}/rotate", post(keys::rotate))
        .route(
            "/v1/orgs/{org}/ratelimit/overrides",
            get(overrides::index).post(overrides::post),
        )
        .route(
            "/v1/orgs/{org}/ratelimit/overrides/{id}",
            get(overrides::get).delete(overrides::delete),
        )
        .route("/v1/tokens", get(tokens::index).post(tokens::post))
        .route("/v1/tokens/{id}", get(tokens::get).delete(tokens::delete))
        .route("/v1/audit", get(audit::index))
        .route("/v1/audit/verify", get(audit::verify))
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
