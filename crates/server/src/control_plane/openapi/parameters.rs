//! The parameters of routes: ids in the path, the query, headers.

use serde_json::{Map, Value, json};

use super::super::ask::{MAX_PAGE, PAGE};
use super::schemas::of;

/// The parameters in a path, from left to right.
pub(super) fn of_path(path: &str) -> Vec<Value> {
    let mut parameters = Vec::new();
    let mut collection = "";
    for segment in path.split('/') {
        match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => parameters.push(in_path(name, collection)),
            None => collection = segment,
        }
    }
    parameters
}

fn in_path(name: &str, collection: &str) -> Value {
    let (schema, about, example) = match (name, collection) {
        ("orgId", _) => ("Id", "The org.", "acme"),
        ("appId", _) => ("Id", "The app, within its org.", "web"),
        ("keyId", _) => ("Id", "The key, within its org.", "mobile"),
        ("userId", _) => ("Id", "The user, within the org.", "u7"),
        ("quotaId", _) => (
            "QuotaId",
            "The quota's counter, as the list of quotas names it.",
            "0190a1b2c3d4e5f60718293a4b5c6d7e",
        ),
        ("tier", _) => ("Id", "The tier's name.", "Enterprise"),
        ("id", "policies") => ("PolicyId", "The policy.", "enterprise-records"),
        ("id", "rollouts") => ("PolicyId", "The rollout.", "summer"),
        ("id", "overrides") => (
            "OverrideId",
            "The override, as its making answered.",
            "0190a1b2c3d4e5f60718",
        ),
        ("id", "tokens") => ("TokenId", "The token's id, not its secret.", "0123456789abcdef"),
        _ => ("Id", "", "id"),
    };
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": about,
        "schema": of(schema),
        "example": example,
    })
}

/// A reference to a parameter of the query or a header.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// The name that a parameter has in a query, which is that of its component but for lists with cursors of their
/// own.
pub(in super::super) fn query_name(component: &str) -> &str {
    match component {
        "auditCursor" => "cursor",
        "statementFormat" => "format",
        name => name,
    }
}

/// All parameters of queries, and all headers that are read.
pub(super) fn components() -> Map<String, Value> {
    let query = |name: &str, schema: Value, about: &str| {
        let parameter = json!({
            "name": query_name(name),
            "in": "query",
            "required": false,
            "description": about,
            "schema": schema,
        });
        (name.to_owned(), parameter)
    };
    let header = |name: &str, schema: Value, about: &str| {
        let parameter =
            json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema});
        (name.to_owned(), parameter)
    };
    [
        query(
            "limit",
            json!({"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE}),
            "How many items a page holds at most.",
        ),
        query(
            "cursor",
            json!({"type": "string", "pattern": "^[^\\u0000]*$"}),
            "Where the page begins: the `nextCursor` of the one before.",
        ),
        query(
            "auditCursor",
            json!({"type": "string", "pattern": "^[0-9]{0,18}$"}),
            "Where the page begins: the `nextCursor` of the one before.",
        ),
        query(
            "dryRun",
            json!({"type": "boolean", "default": false}),
            "Whether only to answer what would change.",
        ),
        query(
            "format",
            json!({"type": "string", "enum": ["json", "jsonl"], "default": "json"}),
            "`jsonl` exports all, one row a line, oldest first, whatever `limit` and `cursor` say.",
        ),
        query(
            "statementFormat",
            json!({"type": "string", "enum": ["json", "csv"], "default": "json"}),
            "`csv` has a line for each app, class of endpoint and environment.",
        ),
        query(
            "month",
            json!({"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])$"}),
            "Which month; the present one if left out.",
        ),
        query(
            "usage",
            json!({"type": "string", "enum": ["carry", "proportional", "reset"]}),
            "What becomes of what was used of quotas in their present periods: it stays (`carry`, unless said otherwise), stays the \
             same part of the limit, or is nothing.",
        ),
        header(
            "If-Match",
            json!({"type": "string", "examples": ["\"42\""]}),
            "ETags, or `*`: the write is refused (412) if what is there has none of them.",
        ),
        header(
            "If-None-Match",
            json!({"type": "string", "examples": ["*"]}),
            "`*`, or ETags: the write is refused (412) if there is something, or if it has one of them.",
        ),
        header(
            "Idempotency-Key",
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x20-\\x7e]+$"}),
            "A name of the caller's choice for this request. Sent again within 24 hours, the request is not carried \
             out again: the first answer is repeated, without secrets.",
        ),
        header(
            "X-Request-Id",
            json!({"type": "string"}),
            "What the audit calls this request. Made up if there is none, or if it is longer than 128 characters.",
        ),
    ]
    .into_iter()
    .collect()
}
