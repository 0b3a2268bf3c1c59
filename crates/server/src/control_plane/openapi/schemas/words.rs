//! The single values that fields are made of.

use serde_json::{Value, json};
use tollgate_catalog::model::MAX_ID_BYTES;

use super::super::super::role::Role;
use super::object::one_of;

/// What is no control character, as a class of a regular expression.
const PLAIN: &str = "[^\\u0000-\\u001f\\u007f-\\u009f]";

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let dimension = "(endpoint|ip|org|app|key|user|descriptor:[^+\\u0000-\\u001f\\u007f-\\u009f]+)";
    let text = |about: &str, pattern: &str, examples: &[&str]| json!({"type": "string", "description": about, "pattern": pattern, "examples": examples});
    let mut id = text(
        "The id of an org, app, key or user, or another name: at most 256 bytes, no control characters. \
         Upper and lower case differ.",
        &format!("^{PLAIN}+$"),
        &["acme"],
    );
    id["minLength"] = json!(1);
    id["maxLength"] = json!(MAX_ID_BYTES);
    let mut role = one_of(&Role::ALL.map(Role::name));
    role["description"] = json!("What a caller may do. Tenants belong to one org.");
    vec![
        ("Id", id),
        (
            "PolicyId",
            text(
                "A policy's id.",
                "^[A-Za-z0-9._:-]{1,128}$",
                &["enterprise-records"],
            ),
        ),
        (
            "OverrideId",
            text(
                "An override's id; ids sort by when they were made. Of one in the policy file, its place there.",
                "^[0-9a-f]{20}$",
                &["0190a1b2c3d4e5f60718"],
            ),
        ),
        (
            "TokenId",
            text("A token's id.", "^[0-9a-f]{16}$", &["0123456789abcdef"]),
        ),
        (
            "Length",
            text(
                "A length of time, at most 366d.",
                "^[1-9][0-9]*(ms|s|m|h|d)$",
                &["90s"],
            ),
        ),
        (
            "Window",
            text(
                "A length of time of at most 366d, or for a quota a calendar period.",
                "^([1-9][0-9]*(ms|s|m|h|d)|day|week|month|billing_month)$",
                &["1m", "month"],
            ),
        ),
        (
            "EndpointPattern",
            text(
                "`[METHOD ]/path`, in which `{x}` is one segment and a final `*` zero or more; `class:NAME`; or `*`.",
                &format!("^(\\*|class:{PLAIN}+|([A-Za-z0-9_-]{{1,32}} )?/{PLAIN}*)$"),
                &["POST /v1/exports", "/files/*", "class:heavy", "*"],
            ),
        ),
        (
            "Scope",
            json!({
                "description": "What is counted together: one dimension, several joined by `+`, or a list of them.",
                "anyOf": [
                    {"type": "string", "pattern": format!("^(global|{dimension}(\\+{dimension})*)$")},
                    {
                        "type": "array",
                        "minItems": 1,
                        "uniqueItems": true,
                        "items": {"type": "string", "pattern": format!("^(global|endpoint|ip|org|app|key|user|descriptor:{PLAIN}+)$")},
                    },
                ],
                "examples": ["org", "org+ip", ["org", "ip"]],
            }),
        ),
        (
            "BillingAnchor",
            json!({
                "description": "A date, or an instant, at which billing months begin.",
                "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}],
                "examples": ["2024-01-31"],
            }),
        ),
        ("Role", role),
    ]
}
