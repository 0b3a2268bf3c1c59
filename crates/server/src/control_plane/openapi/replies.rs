//! What a route answers, as the document says it.

use serde_json::{Value, json};

use super::super::route::Route;
use super::super::rule::Rule;
use super::schemas::of;

/// A page of a list.
pub(in super::super) fn list(schema: &str) -> Value {
    let list = json!({
        "type": "object",
        "required": ["items", "nextCursor"],
        "properties": {
            "items": {"type": "array", "items": of(schema)},
            "nextCursor": {
                "type": ["string", "null"],
                "description": "The `cursor` of the next page; null at the end.",
            },
        },
    });
    plain("A page of the list.", "application/json", &list)
}

/// A page of a list, or all of it a line each.
pub(in super::super) fn list_or_lines(schema: &str, media_type: &str) -> Value {
    let mut reply = list(schema);
    reply["content"][media_type] = json!({"schema": {"type": "string"}});
    reply
}

/// Something as it stands. What the policy file owns has no ETag.
pub(in super::super) fn shown(schema: &str) -> Value {
    with_etag(plain("It, as it stands.", "application/json", &of(schema)))
}

/// Something that was replaced, or on trial what would change.
pub(in super::super) fn replaced(schema: &str) -> Value {
    let either = json!({"anyOf": [of("DryRun"), of(schema)]});
    with_etag(plain(
        "It was replaced; with `dryRun=true`, what would change.",
        "application/json",
        &either,
    ))
}

/// Counters that were emptied, or on trial what would change.
pub(in super::super) fn emptied(schema: &str) -> Value {
    let either = json!({"anyOf": [of("DryRun"), of(schema)]});
    plain(
        "They are empty; with `dryRun=true`, what would change.",
        "application/json",
        &either,
    )
}

/// Something that was made.
pub(in super::super) fn made(schema: &str) -> Value {
    with_etag(plain("It was made.", "application/json", &of(schema)))
}

/// What would change.
pub(in super::super) fn dry_run() -> Value {
    plain(
        "With `dryRun=true`: what would change.",
        "application/json",
        &of("DryRun"),
    )
}

/// Something is there no longer.
pub(in super::super) fn gone() -> Value {
    json!({"description": "It is deleted."})
}

/// Text of some type.
pub(in super::super) fn text(description: &str, media_type: &str) -> Value {
    plain(description, media_type, &json!({"type": "string"}))
}

/// An answer of a schema.
pub(in super::super) fn plain(description: &str, media_type: &str, schema: &Value) -> Value {
    let mut content = serde_json::Map::new();
    content.insert(media_type.to_owned(), json!({"schema": schema}));
    json!({"description": description, "content": content})
}

fn with_etag(mut reply: Value) -> Value {
    reply["headers"] = json!({"ETag": {"$ref": "#/components/headers/ETag"}});
    reply
}

/// The problems that every route of its kind may answer with, by status.
pub(super) fn problems(route: &Route) -> Vec<u16> {
    if route.rule == Rule::Anyone {
        return Vec::new();
    }
    let mut statuses = vec![400, 401, 408, 413, 429, 503];
    if route.rule.forbids_some() {
        statuses.push(403);
    }
    if route.path.contains('{') {
        statuses.push(404);
    }
    if route.is_write() {
        statuses.extend([409, 412, 422]);
    }
    statuses
}

/// The problems as components, by status.
pub(super) fn problem_components() -> Vec<(u16, Value)> {
    [
        (400, "The path, the query or the body can't be read."),
        (401, "There is no token, or it is not known."),
        (408, "The body took too long to arrive."),
        (403, "The caller's role does not allow this."),
        (404, "There is no such thing, or it is not the caller's to see."),
        (
            409,
            "It stands against something that is there: in use, owned by the policy file, or being changed.",
        ),
        (412, "`If-Match` or `If-None-Match` does not fit."),
        (413, "The body is longer than 1 MiB."),
        (
            422,
            "The body can be read but makes no sense, or the `Idempotency-Key` was used for another request.",
        ),
        (
            429,
            "The caller asks too often, or too many tokens of its network were wrong.",
        ),
        (
            503,
            "The catalogue's database does not answer, or another writer holds it. Nothing was changed.",
        ),
    ]
    .into_iter()
    .map(|(status, description)| {
        let mut reply = plain(description, "application/problem+json", &of("Problem"));
        if status == 401 {
            reply["headers"] = json!({"WWW-Authenticate": {"$ref": "#/components/headers/WWW-Authenticate"}});
        }
        if status == 429 {
            reply["headers"] = json!({"Retry-After": {"$ref": "#/components/headers/Retry-After"}});
        }
        (status, reply)
    })
    .collect()
}
