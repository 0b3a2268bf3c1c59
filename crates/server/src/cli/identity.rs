//! The flags that say whose request it is, for every command that asks about one.

use serde_json::{Map, Value, json};

/// A request, in flags.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Identity {
    /// The organization
    #[arg(long, value_name = "ID")]
    org: Option<String>,
    /// The app
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// The key's id
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// The user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<String>,
    /// The route, such as "POST /v1/exports"
    #[arg(long, value_name = "ROUTE")]
    endpoint: Option<String>,
    /// A permission the request carries; may be repeated
    #[arg(long = "scope", value_name = "NAME")]
    scopes: Vec<String>,
    /// What the request costs
    #[arg(long, value_name = "NUMBER")]
    cost: Option<u64>,
    /// A descriptor, as NAME=VALUE; may be repeated
    #[arg(long = "descriptor", value_name = "NAME=VALUE")]
    descriptors: Vec<String>,
}

impl Identity {
    /// The body of a check.
    pub(crate) fn body(&self) -> Result<Map<String, Value>, String> {
        let mut body = Map::new();
        let texts = [
            ("orgId", &self.org),
            ("appId", &self.app),
            ("keyId", &self.key),
            ("userId", &self.user),
            ("ip", &self.ip),
            ("endpoint", &self.endpoint),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        if !self.scopes.is_empty() {
            body.insert("scopes".to_owned(), json!(self.scopes));
        }
        if let Some(cost) = self.cost {
            body.insert("cost".to_owned(), json!(cost));
        }
        let mut descriptors = Map::new();
        for pair in &self.descriptors {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("--descriptor: `{pair}` is not NAME=VALUE"))?;
            descriptors.insert(name.to_owned(), json!(value));
        }
        if !descriptors.is_empty() {
            body.insert("descriptors".to_owned(), Value::Object(descriptors));
        }
        Ok(body)
    }
}
