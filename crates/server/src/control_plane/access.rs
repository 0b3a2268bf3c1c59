//! Who calls: a bearer token, found by its hash, or verified if another issuer made it.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::response::{IntoResponse, Response};

use super::ControlPlane;
use super::ask::now_ms;
use super::limits::{Arrival, Limited};
use super::role::{Caller, Refusal, Role, token_actor};
use crate::answer::Problem;
use crate::issuer::Issuer;
use crate::secret::{SecretHash, well_formed};

/// Whose connection a request came by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

impl ControlPlane {
    /// Lets a request through that carries a token, and as often as it may.
    pub(super) fn admit(&self, request: &Request) -> Result<Caller, NotAdmitted> {
        let caller = self.recognise(request.headers());
        let Some(limits) = &self.limits else {
            return Ok(caller?);
        };
        let arrival = Arrival {
            peer: request.extensions().get::<Peer>().map(|peer| peer.0),
            method: request.method().as_str(),
            path: request.uri().path(),
        };
        // A good token is looked at first, so that nobody's wrong ones keep anybody else out.
        let within = match &caller {
            Ok(caller) => limits.request(caller, &arrival),
            Err(_) => limits.failed_login(&arrival),
        };
        within.inspect_err(|_| self.metrics.admin_limited())?;
        Ok(caller?)
    }

    /// Who carries the token of a request.
    fn recognise(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = given else {
            return Err(Problem::unauthorized(
                "This address needs `Authorization: Bearer TOKEN`.",
            ));
        };
        let token = token.trim();
        if self.token.is(token) {
            return Ok(Caller {
                actor: "admin-token".to_owned(),
                role: Role::PlatformAdmin,
                org: None,
                until_ms: None,
            });
        }
        if let Some(oidc) = self.oidc.as_ref().filter(|_| Issuer::resembles(token)) {
            return Ok(oidc.caller(token, now_ms().div_euclid(1_000))?);
        }
        let known = well_formed(token).then(|| self.catalogue.token(&SecretHash::of(token)));
        let known = known
            .flatten()
            .filter(|known| known.expires_ms.is_none_or(|at| now_ms() < at));
        let known = known.ok_or_else(|| Problem::unauthorized("The token is not known."))?;
        Ok(Caller {
            actor: token_actor(&known.id),
            role: known.role,
            org: known.org,
            until_ms: known.expires_ms,
        })
    }
}

/// How a request ends before it begins.
pub(super) enum NotAdmitted {
    /// With an error.
    Problem(Problem),
    /// By a limit.
    Limited(Limited),
}

impl From<Problem> for NotAdmitted {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Limited> for NotAdmitted {
    fn from(limited: Limited) -> Self {
        Self::Limited(limited)
    }
}

impl IntoResponse for NotAdmitted {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Limited(limited) => limited.into_response(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Absent => Self::not_found(),
            Refusal::Forbidden => Self::forbidden("Your role does not allow this."),
        }
    }
}
