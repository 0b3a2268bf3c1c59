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
    /// The hash of the secret before it was rotated, and until when that one still works.
    pub former: Option<(SecretHash, Option<i64>)>,
}

impl KeyDocument {
    /// The JSON that is stored.
    pub fn to_json(&self) -> Value {
        let mut document = self.shown();
        // All under one name: the journal leaves out what is called a hash.
        document["hash"] = json!({
            "present": self.hash.to_string(),
            "former": self.former.map(|(hash, _)| hash.to_string()),
            "formerUntil": self.former.and_then(|(_, until)| until),
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
        })
    }

    /// Reads what is stored.
    pub fn read(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let hash = &value["hash"];
        let former = hash["former"].as_str().and_then(|former| former.parse().ok());
        Some(Self {
            app: value["appId"].as_str()?.to_owned(),
            test: value["environment"] == "test",
            prefix: value["prefix"].as_str()?.to_owned(),
            created_ms: value["createdAt"].as_i64()?,
            expires_ms: value["expiresAt"].as_i64(),
            hash: hash["present"].as_str()?.parse().ok()?,
            former: former.map(|former| (former, hash["formerUntil"].as_i64())),
        })
    }

    /// The key as a snapshot knows it: once for each secret that still works.
    pub(super) fn compiled(&self, place: &Place) -> Vec<ApiKey> {
        let secrets = [Some((self.hash, self.expires_ms)), self.former];
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
        secrets.into_iter().flatten().map(compiled).collect()
    }
}
