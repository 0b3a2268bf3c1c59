//! What the journal keeps of a body, and how its rows are chained by their hashes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{AuditKey, Author};

/// The member of a body that stands for a secret.
const SECRET: &str = "hash";

/// A row of the journal as the table holds it; an absent body is empty.
pub(super) struct Link {
    pub(super) revision: i64,
    pub(super) author: Author,
    pub(super) kind: String,
    pub(super) org: String,
    pub(super) id: String,
    pub(super) before: String,
    pub(super) after: String,
}

impl Link {
    /// The hash of the row: SHA-256, in hexadecimal, of the hash before it, a line feed and the row's fields as
    /// a JSON array without spaces. The first row follows the empty hash.
    ///
    /// With a key it is the HMAC of that instead.
    pub(super) fn hash(&self, previous: &str, key: Option<&AuditKey>) -> String {
        let fields = json!([
            self.revision,
            self.author.at_ms,
            self.author.actor,
            self.author.route,
            self.author.request,
            self.author.reason,
            self.kind,
            self.org,
            self.id,
            self.before,
            self.after,
        ]);
        let text = format!("{previous}\n{fields}");
        match key {
            Some(key) => key.sign(&text),
            None => hex(&Sha256::digest(text)),
        }
    }
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A body as the journal keeps it: many may read that who must not learn what a key hashes to, so in the secret's place is a
/// digest of it, which tells whether it was changed since. A body that has none stays as it is written.
pub(super) fn journaled(body: &str) -> String {
    let digest = |secret: &RawValue| json!(hex(&Sha256::digest(secret.get()))).to_string();
    with_secret(body, |secret| RawValue::from_string(digest(secret)).ok())
}

/// A body without its secret, as the journal kept it before it kept digests.
pub(super) fn without_secret(body: &str) -> String {
    with_secret(body, |_| None)
}

/// A body with something in its secret's place.
fn with_secret(body: &str, instead: impl Fn(&RawValue) -> Option<Box<RawValue>>) -> String {
    // Values keep their text: a number read and written again might not be the same.
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(body) else {
        return body.to_owned();
    };
    let Some(secret) = members.remove(SECRET) else {
        return body.to_owned();
    };
    members.extend(instead(&secret).map(|digest| (SECRET.to_owned(), digest)));
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", json!(name), value.get()))
        .collect();
    format!("{{{}}}", members.join(","))
}
