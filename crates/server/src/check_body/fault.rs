//! What is wrong with the JSON of a check, said of the field that it is.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::CheckBody;

/// The fields, and what each has to be.
const FIELDS: [(&str, &str); 14] = [
    ("orgId", "must be text"),
    ("appId", "must be text"),
    ("keyId", "must be text"),
    ("userId", "must be text"),
    ("ip", "must be text"),
    ("endpoint", "must be text"),
    ("apiKey", "must be text"),
    ("scopes", "must be a list of texts"),
    ("cost", "must be a whole number up to 999999999999999"),
    (
        "costs",
        "must be an object of whole numbers up to 999999999999999, each name once",
    ),
    ("descriptors", "must be an object of texts, each name once"),
    ("dryRun", "must be true or false"),
    ("ttlMs", "must be a whole number"),
    ("at", "must be Unix milliseconds or an RFC 3339 time"),
];

/// Names the first field that can't be one of a check by itself; else it is as serde tells it: not JSON, or a field is
/// given twice.
pub(super) fn of(json: &[u8], error: &serde_json::Error) -> String {
    if serde_json::from_slice::<&RawValue>(json).is_err() {
        return error.to_string();
    }
    if json.trim_ascii_start().first() != Some(&b'{') {
        return "it must be an object".to_owned();
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(json).unwrap_or_default();
    let wrong = members.iter().find(|(name, value)| !is_good(name, value));
    let Some((name, _)) = wrong else {
        return error.to_string();
    };
    match FIELDS.iter().find(|(known, _)| known == name) {
        Some((_, rule)) => format!("`{name}` {rule}"),
        None => format!("unknown field `{name}`"),
    }
}

fn is_good(name: &str, value: &RawValue) -> bool {
    let alone = format!("{{{}:{value}}}", json!(name));
    serde_json::from_str::<CheckBody<'_>>(&alone).is_ok()
}
