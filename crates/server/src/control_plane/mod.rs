//! The admin address: health, readiness, metrics and, behind a token, the catalogue.
//!
//! A route's path names its file, and the file says in its `group` what there is to know of the route: the router
//! and the [`openapi`] document are both made of that. [`ask`] reads who asks and what for, [`write`] is the way all
//! writes go, [`answer`] what comes back.

mod access;
mod answer;
mod apps;
mod ask;
mod audit;
mod belongings;
mod docs;
mod effective;
mod endpoint_classes;
mod explain;
mod fleet;
mod health;
mod idempotency;
mod keys;
pub mod limits;
mod lists;
mod metrics;
pub mod oidc;
mod openapi;
mod org_caps;
mod orgs;
mod overrides;
mod patience;
mod plan_change;
mod policies;
mod quotas;
mod readiness;
mod reset;
pub mod role;
mod rollouts;
mod route;
mod rule;
mod seats;
mod server;
mod sight;
mod statement;
mod tiers;
mod token;
mod tokens;
mod unrepeated;
mod users;
mod write;

use std::sync::Arc;

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};

use crate::answer::{Problem, write_problem};
use crate::audit_anchor::AuditAnchor;
use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::reservations::Reservations;
use openapi::{Served, Shape};
use route::Group;

pub use limits::Limits;
pub use oidc::Oidc;
pub use org_caps::{OrgCapFlags, OrgCaps};
pub use readiness::Readiness;
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
    /// What this node last saw of the audit's end.
    pub audit_anchor: Arc<AuditAnchor>,
    /// How much one org may have.
    pub org_caps: OrgCaps,
    /// What can be changed.
    pub catalogue: Arc<Catalogue>,
    /// The fleet that shares the counters, if there is one.
    pub fleet: Option<Arc<Fleet>>,
    /// The region's name.
    pub region: String,
    /// What is reserved on this node.
    pub reservations: Arc<Reservations>,
    /// Whether requests should be sent here.
    pub readiness: Readiness,
}

/// The largest body an admin route reads.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// All routes, by what they are about.
fn groups() -> Vec<Group> {
    vec![
        policies::group(),
        endpoint_classes::group(),
        rollouts::group(),
        explain::group(),
        tiers::group(),
        orgs::group(),
        users::group(),
        apps::group(),
        keys::group(),
        overrides::group(),
        effective::group(),
        reset::group(),
        quotas::group(),
        statement::group(),
        tokens::group(),
        audit::group(),
        fleet::group(),
        health::group(),
        metrics::group(),
        docs::group(),
    ]
}

/// The OpenAPI document of the admin address.
pub fn openapi_document() -> serde_json::Value {
    openapi::document(&groups())
}

/// The router of the admin address.
pub fn router(plane: Arc<ControlPlane>) -> Router {
    let groups = groups();
    let document = Served::new(&groups);
    let shapes: Vec<Shape> = Shape::all(groups.iter().flat_map(|group| &group.routes)).collect();
    let all = groups.into_iter().flat_map(|group| group.routes).zip(shapes);
    all.fold(Router::new(), |router, (route, shape)| {
        router.route(route.path, route.handler.route_layer(Extension(shape)))
    })
    .fallback(|| async { Problem::not_found() })
    .method_not_allowed_fallback(|| async {
        Problem {
            status: 405,
            error: "method_not_allowed",
            title: "Method not allowed",
            detail: "This address does not take that method.".into(),
        }
    })
    .layer(Extension(document))
    .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY_BYTES))
    .with_state(plane)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // To refuse is no error of the server's; what is, was logged where it was found.
        tracing::debug!(status = self.status, "refused: {}", self.detail);
        let mut body = Vec::new();
        write_problem(&self, &mut body);
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let wanted = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, wanted);
        }
        response
    }
}
