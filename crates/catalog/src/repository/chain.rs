//! What the journal keeps of a body, and how its rows are chained by their hashes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::Author;

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
    pub(super) fn hash(&self, previous: &str) -> String {
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
        let digest = Sha256::digest(format!("{previous}\n{fields}"));
        let mut text = String::with_capacity(64);
        for byte in digest {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// A body without its secret, for the journal: many may read that who must not learn what a key hashes to.
/// A body that has none stays as it is written.
pub(super) fn without_secret(body: &str) -> String {
    // Values keep their text: a number read and written again might not be the same.
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(body) else {
        return body.to_owned();
    };
    if members.remove(SECRET).is_none() {
        return body.to_owned();
    }
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", json!(name), value.get()))
        .collect();
    format!("{{{}}}", members.join(","))
}
