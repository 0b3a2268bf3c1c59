//! The document of an API key.

use serde_json::{Value, json};
use tollgate_catalog::repository::Place;
use tollgate_catalog::snapshot::ApiKey;
use tollgate_core::Timestamp;

use crate::secret::SecretHash;

/// An API key as the database keeps it: everything but its secret, of which there is only the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDocument {
    /// The app it belongs to.
    pub app: String,
    /// It is for trying things out.
    pub test: bool,
    /// How the secret begins, to know it again in a list.
    pub prefix: String,
    /// When it was made.
    pub created_ms: i64,
    /// From when on it no longer works.
    pub expires_ms: Option<i64>,
    /// The secret's hash.
    pub hash: SecretHash,
    /// The secrets before it was rotated that may still work, the newest first.
    pub formers: Vec<FormerSecret>,
}

/// A secret that a key had before it was rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormerSecret {
    /// Its hash.
    pub hash: SecretHash,
    /// From when on it no longer works.
    pub until_ms: Option<i64>,
}

impl KeyDocument {
    /// The JSON that is stored.
    pub fn to_json(&self) -> Value {
        let mut document = self.shown();
        let former =
            |former: &FormerSecret| json!({"hash": former.hash.to_string(), "until": former.until_ms});
        let newest = self.formers.first();
        // All under one name: the journal leaves out what is called a hash. The newest of the former ones stands apart, too,
        // for versions that know of no other.
        document["hash"] = json!({
            "present": self.hash.to_string(),
            "former": newest.map(|former| former.hash.to_string()),
            "formerUntil": newest.and_then(|former| former.until_ms),
            "formers": self.formers.iter().map(former).collect::<Value>(),
        });
        document
    }

    /// The JSON that is shown: no hash.
    pub fn shown(&self) -> Value {
        json!({
            "appId": self.app,
            "environment": if self.test { "test" } else { "live" },
            "prefix": self.prefix,
            "createdAt": self.created_ms,
            "expiresAt": self.expires_ms,
            "formerSecretsUntil": self.formers.iter().filter_map(|former| former.until_ms).max(),
        })
    }

    /// Reads what is stored.
    pub fn read(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let hash = &value["hash"];
        let former = |hash: &Value, until: &Value| {
            Some(FormerSecret {
                hash: hash.as_str()?.parse().ok()?,
                until_ms: until.as_i64(),
            })
        };
        let formers = match hash["formers"].as_array() {
            Some(all) => all
                .iter()
                .filter_map(|one| former(&one["hash"], &one["until"]))
                .collect(),
            None => former(&hash["former"], &hash["formerUntil"])
                .into_iter()
                .collect(),
        };
        Some(Self {
            app: value["appId"].as_str()?.to_owned(),
            test: value["environment"] == "test",
            prefix: value["prefix"].as_str()?.to_owned(),
            created_ms: value["createdAt"].as_i64()?,
            expires_ms: value["expiresAt"].as_i64(),
            hash: hash["present"].as_str()?.parse().ok()?,
            formers,
        })
    }

    /// The key as a snapshot knows it: once for each secret that still works.
    pub(super) fn compiled(&self, place: &Place) -> Vec<ApiKey> {
        let present = (self.hash, self.expires_ms);
        let formers = self.formers.iter().map(|former| (former.hash, former.until_ms));
        let secrets = std::iter::once(present).chain(formers);
        let compiled = |(hash, expires_ms): (SecretHash, Option<i64>)| ApiKey {
            hash: hash.bytes(),
            org: place.org.as_str().into(),
            app: self.app.as_str().into(),
            id: place.id.as_str().into(),
            test: self.test,
            // A time before 1970 is long past.
            expires: expires_ms
                .map(|at| Timestamp::from_millis(at.max(0).unsigned_abs()).unwrap_or_default()),
        };
        secrets.map(compiled).collect()
    }
}
