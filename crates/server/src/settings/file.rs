//! The configuration file: the same settings as the flags, under the same names.

use std::path::{Path, PathBuf};

use tollgate_catalog::document::{Fields, Node, Problems, Value, parse_yaml};

use super::Flags;
use crate::control_plane::OrgCapFlags;
use crate::control_plane::oidc::OidcFlags;
use crate::data_plane::JwtFlags;
use crate::tls::TlsFlags;

/// Reads the file; the error names its lines.
pub(super) fn read(path: &Path) -> Result<Flags, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let fail = |problems: Problems| {
        let lines = problems.0.iter().map(|problem| {
            let place = format!("{}:{}", path.display(), problem.line);
            match problem.field.as_str() {
                "" => format!("{place}: {}", problem.message),
                field => format!("{place}: {field}: {}", problem.message),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let root = parse_yaml(&text).map_err(fail)?;
    let mut problems = Problems::default();
    let Some(mut fields) = Fields::of(&root, "", &mut problems) else {
        return Err(fail(problems));
    };
    let mut text =
        |name, problems: &mut Problems| fields.node(name).and_then(|node| joined(node, name, problems));
    let mut flags = Flags {
        config: None,
        data_dir: text("data-dir", &mut problems).map(PathBuf::from),
        http: text("http", &mut problems),
        grpc: text("grpc", &mut problems),
        admin: text("admin", &mut problems),
        resp: text("resp", &mut problems),
        admin_token: text("admin-token", &mut problems),
        tls: TlsFlags {
            tls_cert: text("tls-cert", &mut problems).map(PathBuf::from),
            tls_key: text("tls-key", &mut problems).map(PathBuf::from),
            tls_client_ca: text("tls-client-ca", &mut problems).map(PathBuf::from),
        },
        oidc: OidcFlags {
            oidc_issuer: text("oidc-issuer", &mut problems),
            oidc_audience: text("oidc-audience", &mut problems),
            oidc_jwks: text("oidc-jwks", &mut problems),
            oidc_role_claim: text("oidc-role-claim", &mut problems),
            oidc_org_claim: text("oidc-org-claim", &mut problems),
            oidc_ca: text("oidc-ca", &mut problems).map(PathBuf::from),
        },
        jwt: JwtFlags {
            jwt_issuer: text("jwt-issuer", &mut problems),
            jwt_audience: text("jwt-audience", &mut problems),
            jwt_jwks: text("jwt-jwks", &mut problems),
            jwt_org_claim: text("jwt-org-claim", &mut problems),
            jwt_app_claim: text("jwt-app-claim", &mut problems),
            jwt_key_claim: text("jwt-key-claim", &mut problems),
            jwt_user_claim: text("jwt-user-claim", &mut problems),
            jwt_scopes_claim: text("jwt-scopes-claim", &mut problems),
            jwt_ca: text("jwt-ca", &mut problems).map(PathBuf::from),
        },
        admin_limits: text("admin-limits", &mut problems).map(PathBuf::from),
        audit_key: text("audit-key", &mut problems).map(PathBuf::from),
        data_token: text("data-token", &mut problems),
        database: text("database", &mut problems),
        redis: text("redis", &mut problems),
        policies: text("policies", &mut problems).map(PathBuf::from),
        headers: text("headers", &mut problems),
        region: text("region", &mut problems),
        quota_alerts: text("quota-alerts", &mut problems),
        quota_journal: text("quota-journal", &mut problems).map(PathBuf::from),
        trusted_proxies: text("trusted-proxies", &mut problems),
        require_identity: text("require-identity", &mut problems),
        drain_delay: text("drain-delay", &mut problems),
        ..Flags::default()
    };
    let mut number = |name| {
        let number = fields.whole(name, u32::MAX.into(), &mut problems);
        number.and_then(|number| usize::try_from(number).ok())
    };
    flags.max_counters = number("max-counters");
    flags.max_connections = number("max-connections");
    flags.max_org_waiting = number("max-org-waiting");
    flags.max_org_rate = number("max-org-rate");
    flags.threads = number("threads");
    flags.org_caps = OrgCapFlags {
        max_org_apps: number("max-org-apps"),
        max_org_keys: number("max-org-keys"),
        max_org_tokens: number("max-org-tokens"),
        max_org_overrides: number("max-org-overrides"),
        max_org_users: number("max-org-users"),
    };
    let mut small = |name| {
        let number = fields.whole(name, u32::MAX.into(), &mut problems);
        number.and_then(|number| u32::try_from(number).ok())
    };
    flags.redis_wait = small("redis-wait");
    flags.redis_deadline = small("redis-deadline");
    flags.fleet_nodes = small("fleet-nodes");
    flags.redis_allow_eviction = fields
        .flag("redis-allow-eviction", &mut problems)
        .unwrap_or(false);
    flags.insecure_bind = fields.flag("insecure-bind", &mut problems).unwrap_or(false);
    flags.shadow_all = fields.flag("shadow-all", &mut problems);
    flags.ready_when_degraded = fields.flag("ready-when-degraded", &mut problems);
    flags.rls_headers = fields.flag("rls-headers", &mut problems);
    if let Some(node) = fields.node("rls")
        && let Some(mut rls) = Fields::of(node, "rls", &mut problems)
    {
        flags.rls_headers = rls.flag("headers", &mut problems).or(flags.rls_headers);
        rls.finish(&mut problems);
    }
    fields.finish(&mut problems);
    if problems.0.is_empty() {
        Ok(flags)
    } else {
        Err(fail(problems))
    }
}

/// A single value, or a list joined by commas, as the flag would take it.
fn joined(node: &Node, name: &str, problems: &mut Problems) -> Option<String> {
    let scalar = |node: &Node| match &node.value {
        Value::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    };
    let text = match &node.value {
        Value::List(items) => items
            .iter()
            .map(scalar)
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        _ => scalar(node),
    };
    if text.is_none() {
        problems.add(node.line, name, "must be text");
    }
    text
}
