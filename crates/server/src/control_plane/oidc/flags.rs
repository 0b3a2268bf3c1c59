//! The settings that say which issuer to believe.

use std::path::PathBuf;

use clap::Args;

use crate::issuer::{IssuerSettings, well_formed};

/// The flags of `tollgate serve` that name it.
#[derive(Debug, Clone, Default, Args)]
pub struct OidcFlags {
    /// Take JWTs of this OpenID Connect issuer on the admin address
    #[arg(long, env = "TOLLGATE_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// The audience that such a token must be meant for
    #[arg(long, env = "TOLLGATE_OIDC_AUDIENCE", value_name = "AUDIENCE")]
    pub oidc_audience: Option<String>,
    /// The issuer's keys, a JWK set [default: where its /.well-known/openid-configuration says]
    #[arg(long, env = "TOLLGATE_OIDC_JWKS", value_name = "URL|FILE")]
    pub oidc_jwks: Option<String>,
    /// The claim that names the role, or a path to it such as /realm_access/roles [default: tollgate_role]
    #[arg(long, env = "TOLLGATE_OIDC_ROLE_CLAIM", value_name = "NAME|PATH")]
    pub oidc_role_claim: Option<String>,
    /// The claim that names a tenant's org, or a path to it [default: tollgate_org]
    #[arg(long, env = "TOLLGATE_OIDC_ORG_CLAIM", value_name = "NAME|PATH")]
    pub oidc_org_claim: Option<String>,
    /// Believe the issuer by a certificate of this authority (PEM) [default: the system's authorities]
    #[arg(long, env = "TOLLGATE_OIDC_CA", value_name = "FILE")]
    pub oidc_ca: Option<PathBuf>,
}

/// An issuer and the claims of its tokens that count here.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// The issuer.
    pub issuer: IssuerSettings,
    /// The claim with the role: its name, or the path to it.
    pub role_claim: String,
    /// The claim with the org, likewise.
    pub org_claim: String,
}

impl OidcFlags {
    /// These flags where they are given, else those of the configuration file.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Self {
            oidc_issuer: self.oidc_issuer.or(file.oidc_issuer),
            oidc_audience: self.oidc_audience.or(file.oidc_audience),
            oidc_jwks: self.oidc_jwks.or(file.oidc_jwks),
            oidc_role_claim: self.oidc_role_claim.or(file.oidc_role_claim),
            oidc_org_claim: self.oidc_org_claim.or(file.oidc_org_claim),
            oidc_ca: self.oidc_ca.or(file.oidc_ca),
        }
    }

    /// The settings, if there is an issuer; the error is a sentence that names the flag.
    pub fn settings(self) -> Result<Option<OidcSettings>, String> {
        let Some(issuer) = self.oidc_issuer else {
            let ca = self.oidc_ca.map(|_| String::new());
            let others = [
                ("audience", self.oidc_audience),
                ("jwks", self.oidc_jwks),
                ("role-claim", self.oidc_role_claim),
                ("org-claim", self.oidc_org_claim),
                ("ca", ca),
            ];
            return match others.into_iter().find(|(_, given)| given.is_some()) {
                Some((name, _)) => Err(format!("--oidc-{name}: means nothing without --oidc-issuer")),
                None => Ok(None),
            };
        };
        let Some(audience) = self.oidc_audience else {
            return Err(
                "--oidc-issuer: needs --oidc-audience, or tokens for other services would be good here too"
                    .to_owned(),
            );
        };
        let settings = OidcSettings {
            issuer: IssuerSettings {
                flag: "oidc",
                issuer,
                audience,
                jwks: self.oidc_jwks,
                ca: ("--oidc-ca", self.oidc_ca),
            },
            role_claim: self.oidc_role_claim.unwrap_or_else(|| "tollgate_role".to_owned()),
            org_claim: self.oidc_org_claim.unwrap_or_else(|| "tollgate_org".to_owned()),
        };
        for (name, value) in [
            ("issuer", &settings.issuer.issuer),
            ("audience", &settings.issuer.audience),
            ("role-claim", &settings.role_claim),
            ("org-claim", &settings.org_claim),
        ] {
            if value.is_empty() {
                return Err(format!("--oidc-{name}: must not be empty"));
            }
        }
        for (name, claim) in [
            ("role-claim", &settings.role_claim),
            ("org-claim", &settings.org_claim),
        ] {
            if !well_formed(claim) {
                return Err(format!(
                    "--oidc-{name}: `{claim}` is no path: after `~` comes 0, for a `~`, or 1, for a `/`"
                ));
            }
        }
        if settings.role_claim == settings.org_claim {
            return Err("--oidc-org-claim: must be another claim than --oidc-role-claim".to_owned());
        }
        Ok(Some(settings))
    }
}
