//! What a good token grants: who its bearer is, in which role, and of which org.

use serde_json::{Map, Value};
use tollgate_catalog::model::check_id;

use super::super::role::{Caller, Role};
use super::Refused;
use super::flags::OidcSettings;
use crate::issuer::{expires, found};

/// The caller that a token speaks for.
pub(super) fn caller(claims: &Map<String, Value>, settings: &OidcSettings) -> Result<Caller, Refused> {
    let subject = claims.get("sub").and_then(Value::as_str);
    let subject = subject.filter(|subject| check_id(subject).is_ok());
    let subject = subject.ok_or(Refused::Nameless)?;
    let role = role(found(claims, &settings.role_claim), &settings.role_claim)?;
    let org = org(found(claims, &settings.org_claim), &settings.org_claim)?;
    match (role.within_org(), &org) {
        (true, None) => Err(Refused::Role(format!(
            "The token's role {role} needs an org in its claim `{}`.",
            settings.org_claim
        ))),
        (false, Some(_)) => Err(Refused::Role(format!(
            "The token's role {role} is for no org, but its claim `{}` names one.",
            settings.org_claim
        ))),
        _ => Ok(Caller {
            actor: format!("oidc:{subject}"),
            role,
            org,
            until_ms: Some(expires(claims).saturating_mul(1_000)),
        }),
    }
}

/// The role of the claim: its text, or of a list the one that may do all that the others may. A list may hold names of
/// other applications' roles too.
fn role(claim: Option<&Value>, name: &str) -> Result<Role, Refused> {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<Role>().ok());
    let roles: Vec<Role> = match claim {
        Some(Value::Array(names)) => names.iter().filter_map(parse).collect(),
        Some(value) => parse(value).into_iter().collect(),
        None => Vec::new(),
    };
    if roles.is_empty() {
        return Err(Refused::Role(format!(
            "The token's claim `{name}` names no role of this server."
        )));
    }
    let highest = roles
        .iter()
        .find(|role| roles.iter().all(|other| includes(**role, *other)));
    highest.copied().ok_or_else(|| {
        Refused::Role(format!(
            "The token's claim `{name}` names roles of which none includes the others."
        ))
    })
}

/// Whether whoever has a role may do all that the other one may.
fn includes(role: Role, other: Role) -> bool {
    match role {
        Role::PlatformAdmin => true,
        Role::Operator | Role::TenantAdmin => role == other || other == Role::TenantViewer,
        Role::TenantViewer => role == other,
    }
}

fn org(claim: Option<&Value>, name: &str) -> Result<Option<String>, Refused> {
    match claim {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if check_id(id).is_ok() => Ok(Some(id.clone())),
        Some(_) => Err(Refused::Role(format!(
            "The token's claim `{name}` is no org's id."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_list_the_role_counts_that_includes_the_others() {
        let of = |claim: Value| role(Some(&claim), "roles").ok();
        assert_eq!(of(json!("operator")), Some(Role::Operator));
        assert_eq!(
            of(json!(["tenant-viewer", "tenant-admin"])),
            Some(Role::TenantAdmin)
        );
        assert_eq!(of(json!(["operator", "tenant-viewer"])), Some(Role::Operator));
        assert_eq!(
            of(json!(["tenant-admin", "platform-admin", "operator"])),
            Some(Role::PlatformAdmin)
        );
        assert_eq!(of(json!(["offline_access", "operator", 7])), Some(Role::Operator));
        // One sees everything, the other changes something.
        assert_eq!(of(json!(["operator", "tenant-admin"])), None);
        for none in [
            json!([]),
            json!(["root"]),
            json!("root"),
            json!("operator "),
            json!(1),
            json!({"operator": 1}),
        ] {
            assert_eq!(of(none.clone()), None, "{none}");
        }
    }
}
