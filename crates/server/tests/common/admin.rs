//! The control plane as somebody with a token sees it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::http::{Answer, Ask};
use super::server::Server;

/// Somebody with a token.
#[derive(Debug, Clone)]
pub struct Admin {
    address: SocketAddr,
    token: String,
}

impl Server {
    /// Whoever has the token that lies in the data directory.
    pub fn platform_admin(&self) -> Admin {
        let token = std::fs::read_to_string(self.data("admin-token")).unwrap();
        self.with_token(token.trim())
    }

    /// Whoever has this token.
    pub fn with_token(&self, token: &str) -> Admin {
        Admin {
            address: self.admin,
            token: token.to_owned(),
        }
    }
}

impl Admin {
    /// A request in the making, with the token.
    pub fn ask(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.address, method, target).header("Authorization", &format!("Bearer {}", self.token))
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target).send()
    }

    pub fn put(&self, target: &str, body: &Value) -> Answer {
        self.ask("PUT", target).body(body.to_string()).send()
    }

    pub fn post(&self, target: &str, body: &Value) -> Answer {
        self.ask("POST", target).body(body.to_string()).send()
    }

    pub fn delete(&self, target: &str) -> Answer {
        self.ask("DELETE", target).send()
    }

    /// Makes or replaces something.
    pub fn set(&self, target: &str, body: &Value) -> Value {
        let answer = self.put(target, body);
        assert!(matches!(answer.status, 200 | 201), "{target}: {}", answer.text());
        answer.json()
    }

    /// Deletes something that is there.
    pub fn remove(&self, target: &str) {
        let answer = self.delete(target);
        assert_eq!(answer.status, 204, "{target}: {}", answer.text());
    }

    /// The items of a list's first page.
    pub fn items(&self, target: &str) -> Vec<Value> {
        let mut list = self.get(target).expect(200);
        match list["items"].take() {
            Value::Array(items) => items,
            _ => panic!("{target} has no items: {list}"),
        }
    }

    /// How many changes the audit has.
    pub fn changes(&self) -> u64 {
        let verified = self.get("/v1/audit/verify").expect(200);
        assert_eq!(verified["intact"], true, "{verified}");
        verified["rows"].as_u64().unwrap()
    }

    /// A new key's id and secret.
    pub fn key(&self, org: &str, app: &str, environment: &str) -> (String, String) {
        let target = format!("/v1/orgs/{org}/apps/{app}/keys");
        let key = self
            .post(&target, &json!({"environment": environment}))
            .expect(201);
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        (text("keyId"), text("secret"))
    }

    /// Somebody with a new token of a role, of an org if the role is one of tenants.
    pub fn with_role(&self, role: &str, org: Option<&str>) -> Self {
        let token = self.post("/v1/tokens", &json!({"role": role, "orgId": org}));
        let token = token.expect(201)["secret"].as_str().unwrap().to_owned();
        Self {
            address: self.address,
            token,
        }
    }

    /// The token.
    pub fn secret(&self) -> &str {
        &self.token
    }
}
