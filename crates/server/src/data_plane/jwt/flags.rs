//! The settings that say whose tokens tell who asks, and in which claims.

use std::path::PathBuf;

use clap::Args;

use crate::issuer::{IssuerSettings, well_formed};

/// The flags of `tollgate serve` that name it.
#[derive(Debug, Clone, Default, Args)]
pub struct JwtFlags {
    /// Take who asks from JWTs of this issuer: `Authorization: Bearer` in `/v1/authorize` and Envoy's external authorization
    #[arg(long, env = "TOLLGATE_JWT_ISSUER", value_name = "URL")]
    pub jwt_issuer: Option<String>,
    /// The audience that such a token must be meant for
    #[arg(long, env = "TOLLGATE_JWT_AUDIENCE", value_name = "AUDIENCE")]
    pub jwt_audience: Option<String>,
    /// The issuer's keys, a JWK set [default: where its /.well-known/openid-configuration says]
    #[arg(long, env = "TOLLGATE_JWT_JWKS", value_name = "URL|FILE")]
    pub jwt_jwks: Option<String>,
    /// The claim that names the org, or a path to it such as /organization/id [default: `org_id`]
    #[arg(long, env = "TOLLGATE_JWT_ORG_CLAIM", value_name = "NAME|PATH")]
    pub jwt_org_claim: Option<String>,
    /// The claim that names the app [default: `client_id`]
    #[arg(long, env = "TOLLGATE_JWT_APP_CLAIM", value_name = "NAME|PATH")]
    pub jwt_app_claim: Option<String>,
    /// The claim that names the key [default: none]
    #[arg(long, env = "TOLLGATE_JWT_KEY_CLAIM", value_name = "NAME|PATH")]
    pub jwt_key_claim: Option<String>,
    /// The claim that names the user [default: `sub`]
    #[arg(long, env = "TOLLGATE_JWT_USER_CLAIM", value_name = "NAME|PATH")]
    pub jwt_user_claim: Option<String>,
    /// The claim with the permissions [default: `scope`]
    #[arg(long, env = "TOLLGATE_JWT_SCOPES_CLAIM", value_name = "NAME|PATH")]
    pub jwt_scopes_claim: Option<String>,
    /// Believe the issuer by a certificate of this authority (PEM) [default: the system's authorities]
    #[arg(long, env = "TOLLGATE_JWT_CA", value_name = "FILE")]
    pub jwt_ca: Option<PathBuf>,
}

/// An issuer, and the claims of its tokens that say who asks. A claim that is not named is not looked for.
#[derive(Debug, Clone)]
pub struct JwtSettings {
    /// The issuer.
    pub issuer: IssuerSettings,
    /// The claim with the org.
    pub org: Option<String>,
    /// The claim with the app.
    pub app: Option<String>,
    /// The claim with the key.
    pub key: Option<String>,
    /// The claim with the user.
    pub user: Option<String>,
    /// The claim with the permissions.
    pub scopes: Option<String>,
}

impl JwtFlags {
    /// These flags where they are given, else those of the configuration file.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            jwt_issuer: self.jwt_issuer.or(file.jwt_issuer),
            jwt_audience: self.jwt_audience.or(file.jwt_audience),
            jwt_jwks: self.jwt_jwks.or(file.jwt_jwks),
            jwt_org_claim: self.jwt_org_claim.or(file.jwt_org_claim),
            jwt_app_claim: self.jwt_app_claim.or(file.jwt_app_claim),
            jwt_key_claim: self.jwt_key_claim.or(file.jwt_key_claim),
            jwt_user_claim: self.jwt_user_claim.or(file.jwt_user_claim),
            jwt_scopes_claim: self.jwt_scopes_claim.or(file.jwt_scopes_claim),
            jwt_ca: self.jwt_ca.or(file.jwt_ca),
        }
    }

    /// The settings, if there is an issuer; the error is a sentence that names the flag.
    pub fn settings(self) -> Result<Option<JwtSettings>, String> {
        let claims = [
            ("org-claim", &self.jwt_org_claim),
            ("app-claim", &self.jwt_app_claim),
            ("key-claim", &self.jwt_key_claim),
            ("user-claim", &self.jwt_user_claim),
            ("scopes-claim", &self.jwt_scopes_claim),
        ];
        let texts = [
            ("issuer", &self.jwt_issuer),
            ("audience", &self.jwt_audience),
            ("jwks", &self.jwt_jwks),
        ];
        for (name, value) in texts.iter().chain(&claims) {
            if value.as_deref() == Some("") {
                return Err(format!("--jwt-{name}: must not be empty"));
            }
        }
        for (name, claim) in claims {
            if let Some(claim) = claim.as_ref().filter(|claim| !well_formed(claim)) {
                return Err(format!(
                    "--jwt-{name}: `{claim}` is no path: after `~` comes 0, for a `~`, or 1, for a `/`"
                ));
            }
        }
        let Some(issuer) = self.jwt_issuer else {
            let given = texts.iter().chain(&claims).find(|(_, given)| given.is_some());
            let given = given.map(|(name, _)| *name).or(self.jwt_ca.map(|_| "ca"));
            return match given {
                Some(name) => Err(format!("--jwt-{name}: means nothing without --jwt-issuer")),
                None => Ok(None),
            };
        };
        let Some(audience) = self.jwt_audience else {
            return Err(
                "--jwt-issuer: needs --jwt-audience, or tokens for other services would be good here too"
                    .to_owned(),
            );
        };
        let or = |claim: Option<String>, name: &str| claim.or_else(|| Some(name.to_owned()));
        Ok(Some(JwtSettings {
            issuer: IssuerSettings {
                flag: "jwt",
                issuer,
                audience,
                jwks: self.jwt_jwks,
                ca: ("--jwt-ca", self.jwt_ca),
            },
            org: or(self.jwt_org_claim, "org_id"),
            app: or(self.jwt_app_claim, "client_id"),
            key: self.jwt_key_claim,
            user: or(self.jwt_user_claim, "sub"),
            scopes: or(self.jwt_scopes_claim, "scope"),
        }))
    }
}
