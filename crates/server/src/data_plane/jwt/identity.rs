//! Who asks, by what a token claims.

use serde_json::{Map, Value};
use tollgate_catalog::model::check_id;
use tollgate_catalog::{Request, RequestError};

use super::flags::JwtSettings;
use crate::issuer::found;

/// Permissions that are taken from one token.
const MAX_SCOPES: usize = 64;

/// Who asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    org: Option<String>,
    app: Option<String>,
    key: Option<String>,
    user: Option<String>,
    scopes: Vec<String>,
}

impl Identity {
    /// Whom claims name. The error is a sentence.
    pub(super) fn of(claims: &Map<String, Value>, settings: &JwtSettings) -> Result<Self, String> {
        let id = |name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            match found(claims, name) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(id)) if check_id(id).is_ok() => Ok(Some(id.clone())),
                Some(_) => Err(format!("The token's claim `{name}` is no id.")),
            }
        };
        Ok(Self {
            org: id(&settings.org)?,
            app: id(&settings.app)?,
            key: id(&settings.key)?,
            user: id(&settings.user)?,
            scopes: settings
                .scopes
                .as_ref()
                .map_or_else(Vec::new, |name| scopes(found(claims, name))),
        })
    }

    /// Says who asks, where nobody else does. Who says otherwise contradicts the token.
    pub(crate) fn tell<'r>(&'r self, request: &mut Request<'r>) -> Result<(), RequestError> {
        for (field, said, told) in [
            ("orgId", &mut request.org, &self.org),
            ("appId", &mut request.app, &self.app),
            ("keyId", &mut request.key, &self.key),
            ("userId", &mut request.user, &self.user),
        ] {
            let Some(told) = told.as_deref() else { continue };
            if said.is_some_and(|said| said != told) {
                return Err(RequestError::new(field, "contradicts the token"));
            }
            *said = Some(told);
        }
        for scope in &self.scopes {
            if !request.scopes.contains(&scope.as_str()) {
                request.scopes.push(scope);
            }
        }
        Ok(())
    }
}

/// Permissions: a text with spaces between them, or a list. What can't be one is passed over.
fn scopes(claim: Option<&Value>) -> Vec<String> {
    let named: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let good = named.into_iter().filter(|scope| check_id(scope).is_ok());
    good.take(MAX_SCOPES).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> JwtSettings {
        let flags = super::super::JwtFlags {
            jwt_issuer: Some("https://issuer.example".into()),
            jwt_audience: Some("api".into()),
            jwt_key_claim: Some("/session/key".into()),
            ..super::super::JwtFlags::default()
        };
        flags.settings().unwrap().unwrap()
    }

    fn of(claims: &Value) -> Result<Identity, String> {
        Identity::of(claims.as_object().unwrap(), &settings())
    }

    #[test]
    fn claims_name_who_asks() {
        let identity = of(&json!({
            "sub": "u7", "org_id": "acme", "client_id": "web", "session": {"key": "k1"}, "scope": "read  write",
        }))
        .unwrap();
        let mut request = Request {
            org: Some("acme"),
            ..Request::new()
        };
        identity.tell(&mut request).unwrap();
        assert_eq!(
            (request.org, request.app, request.key, request.user),
            (Some("acme"), Some("web"), Some("k1"), Some("u7"))
        );
        assert_eq!(request.scopes.as_slice(), ["read", "write"]);
        let mut other = Request {
            user: Some("u8"),
            ..Request::new()
        };
        assert!(identity.tell(&mut other).is_err());
    }

    #[test]
    fn what_is_no_id_is_refused_and_what_is_absent_is_absent() {
        assert_eq!(
            of(&json!({"scope": ["read", 7, "", "a\nb"]})),
            Ok(Identity {
                org: None,
                app: None,
                key: None,
                user: None,
                scopes: vec!["read".to_owned()],
            })
        );
        for org in [json!(7), json!(""), json!("a\nb"), json!(["acme"]), json!({})] {
            assert!(of(&json!({"org_id": org})).is_err(), "{org}");
        }
    }
}
