//! Checks that are explained, and the effective policies of an org.

use serde_json::{Value, json};
use tollgate_catalog::MAX_COST;

use super::object::{Object, flag, list, of, one_of, text};
use super::source;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Check", check()),
        ("Explanation", explanation()),
        ("EffectivePolicies", effective()),
    ]
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn cost() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MAX_COST})
}

fn endpoint() -> Value {
    json!({
        "type": "string",
        "maxLength": 8192,
        "pattern": "^([A-Za-z0-9_-]{1,32} )?/[^%\\u0000-\\u001f\\u007f-\\u009f]*(%[0-9A-Fa-f]{2}[^%\\u0000-\\u001f\\u007f-\\u009f]*)*$",
        "examples": ["POST /v1/exports"],
    })
}

fn check() -> Value {
    let named = |values: Value| json!({"type": "object", "propertyNames": of("Id"), "additionalProperties": values, "maxProperties": 64});
    Object::sent("A request that a decision is asked for.")
        .may_null("orgId", of("Id"), "Who calls: the organization.")
        .may_null("appId", of("Id"), "The app.")
        .may_null("keyId", of("Id"), "The key's id.")
        .may_null("userId", of("Id"), "The user.")
        .may_null(
            "apiKey",
            of("Id"),
            "A key's secret, in place of `orgId`, `appId` and `keyId`.",
        )
        .may_null(
            "ip",
            json!({"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}),
            "The client's address.",
        )
        .may_null("endpoint", endpoint(), "The method and path.")
        .may_null(
            "scopes",
            json!({"type": "array", "items": of("Id"), "maxItems": 64}),
            "The permissions it carries.",
        )
        .may_null("cost", cost(), "What it costs; 1 if left out.")
        .may_null("costs", named(cost()), "What it costs in other units.")
        .may_null("descriptors", named(of("Id")), "What else is known of it.")
        .may_null(
            "dryRun",
            flag(),
            "Without meaning here: an explanation charges nothing.",
        )
        .may_null(
            "at",
            json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": u64::MAX}, {"type": "string"}]}),
            "When a recorded request came. Without meaning here.",
        )
        .example(json!({
            "orgId": "acme", "appId": "web", "keyId": "k1", "userId": "u7", "ip": "203.0.113.9",
            "endpoint": "POST /v1/exports", "scopes": ["write"], "cost": 1, "descriptors": {"region": "eu"},
        }))
        .schema()
}

fn explanation() -> Value {
    let applied = Object::answered("A policy that applies.")
        .needs("policyId", text(), "")
        .needs("scope", text(), "What is counted together.")
        .needs("mode", one_of(&["enforce", "shadow", "soft"]), "")
        .needs("algorithm", text(), "How it counts.")
        .needs("limit", number(), "What a window admits.")
        .shows("burst", number(), "A bucket's capacity.")
        .needs("window", text(), "")
        .needs("remaining", number(), "What would be left.")
        .needs("violated", flag(), "Whether it has no room for the request.")
        .needs("from", text(), "Where its values came from.")
        .shows("hides", number(), "The limit that an override hides.")
        .with(source);
    let skipped = Object::answered("A policy that does not apply.")
        .needs("policyId", text(), "")
        .needs("reason", text(), "Why not.");
    Object::answered("Which policies apply to a request, which don't and why, and which one binds.")
        .needs("tier", text(), "The org's tier.")
        .shows("endpoint", text(), "The endpoint as it is counted.")
        .shows("class", text(), "Its class.")
        .needs("allowed", flag(), "Whether it would be allowed now.")
        .shows(
            "binds",
            text(),
            "The policy that refuses, or the one with the least left.",
        )
        .needs("applied", list(&applied.schema()), "From broad to narrow.")
        .needs("skipped", list(&skipped.schema()), "")
        .needs(
            "warnings",
            list(&text()),
            "What is almost surely a mistake, such as that no limit applies.",
        )
        .schema()
}

fn effective() -> Value {
    let item = Object::answered("A limit in force.")
        .needs("policyId", text(), "")
        .needs("scope", text(), "What is counted together.")
        .needs("endpointPattern", text(), "The routes it is for.")
        .shows(
            "requiredScope",
            text(),
            "The permission that requests must carry.",
        )
        .needs(
            "match",
            json!({"type": "object", "additionalProperties": text()}),
            "The descriptors that requests must have.",
        )
        .needs("for", text(), "For whom of the org.")
        .needs("from", text(), "Where it came from, in words.")
        .needs("values", values(), "")
        .with(source);
    let tightest = Object::answered("The tightest limit of a level.")
        .needs("policyId", text(), "")
        .needs("limit", number(), "")
        .needs("window", text(), "");
    Object::answered("What is in force for an org.")
        .needs("orgId", of("Id"), "")
        .needs("tier", text(), "")
        .needs("items", list(&item.schema()), "From broad to narrow.")
        .needs(
            "tightest",
            json!({"type": "object", "additionalProperties": tightest.schema()}),
            "The tightest at each level, by scope.",
        )
        .needs(
            "warnings",
            list(&text()),
            "Quotas that one caller alone uses up within an hour.",
        )
        .schema()
}

/// The values of an effective policy.
fn values() -> Value {
    let value = |about: &'static str, kind: Value| {
        Object::answered(about)
            .needs("value", kind.clone(), "")
            .needs("from", one_of(&["policy", "override"]), "Where it came from.")
            .may("hides", kind, "What the policy says.")
            .schema()
    };
    let number_or_null = || json!({"type": ["integer", "null"], "minimum": 0});
    let text_or_null = || json!({"type": ["string", "null"]});
    Object::answered("Each value with where it came from.")
        .needs("algorithm", value("How it counts.", text()), "")
        .needs("limit", value("What a window admits.", number()), "")
        .needs("burst", value("A bucket's capacity.", number_or_null()), "")
        .needs("window", value("The window.", text()), "")
        .needs(
            "anchor",
            value("Where a fixed window begins.", text_or_null()),
            "",
        )
        .needs(
            "timezone",
            value("Whose midnight a quota resets at.", text_or_null()),
            "",
        )
        .needs(
            "counter",
            value("What its count is called, if the policy says so.", text_or_null()),
            "",
        )
        .needs(
            "unit",
            value(
                "What of the request it counts; null for its cost.",
                text_or_null(),
            ),
            "",
        )
        .needs("mode", value("What it does.", text()), "")
        .needs(
            "failMode",
            value("What happens when a shared store can't answer.", text()),
            "",
        )
        .needs("accuracy", value("How much may lie unused in nodes.", text()), "")
        .needs(
            "resetJitter",
            value("How far apart clients are told to come back.", text_or_null()),
            "",
        )
        .needs(
            "expose",
            value("Whether clients may see it in headers.", flag()),
            "",
        )
        .needs(
            "ipv4Prefix",
            value(
                "How many bits of an IPv4 address are counted apart.",
                number_or_null(),
            ),
            "",
        )
        .needs(
            "ipv6Prefix",
            value(
                "How many bits of an IPv6 address are counted apart.",
                number_or_null(),
            ),
            "",
        )
        .schema()
}
