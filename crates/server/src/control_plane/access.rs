//! Who calls: a bearer token, found by its hash, or verified if another issuer made it.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::ControlPlane;
use super::ask::now_ms;
use super::oidc::Oidc;
use super::role::{Caller, Refusal, Role};
use crate::answer::Problem;
use crate::secret::{SecretHash, well_formed};

impl ControlPlane {
    /// Lets a request through that carries a token.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
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
            });
        }
        if let Some(oidc) = self.oidc.as_ref().filter(|_| Oidc::resembles(token)) {
            return Ok(oidc.caller(token, now_ms().div_euclid(1_000))?);
        }
        let known = well_formed(token).then(|| self.catalogue.token(&SecretHash::of(token)));
        let known = known
            .flatten()
            .filter(|known| known.expires_ms.is_none_or(|at| now_ms() < at));
        let known = known.ok_or_else(|| Problem::unauthorized("The token is not known."))?;
        Ok(Caller {
            actor: format!("token:{}", known.id),
            role: known.role,
            org: known.org,
        })
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
