//! Policies, overrides and endpoint classes.

use serde_json::{Value, json};
use tollgate_core::MAX_LIMIT;

use super::object::{Object, flag, instant, list, of, one_of, some_prose, some_text, whole};
use super::source;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let example = json!({
        "id": "enterprise-records", "orgTier": "Enterprise", "scope": "org", "endpointPattern": "POST /records",
        "algorithm": "token_bucket", "limit": 1000, "window": "1m", "burst": 200, "failMode": "open",
        "mode": "enforce", "accuracy": "5%",
    });
    let everyone = json!({"limit": 5, "window": "1m"});
    let mut policy = Object::sent("A limit, and whom it is for.")
        .may_null(
            "id",
            of("PolicyId"),
            "Left out, one is derived from tier, scope, pattern, algorithm and window.",
        )
        .with(|object| selection(object).with(needed).with(values))
        .schema();
    policy["examples"] = json!([everyone, example]);
    let shown = Object::answered("A policy, as it was written.")
        .needs("id", of("PolicyId"), "")
        .with(|object| selection(object).with(needed).with(values).with(source))
        .schema();
    let written = |object: Object| {
        overriding(object)
            .may_null("limit", whole(MAX_LIMIT), "Another limit.")
            .may_null(
                "window",
                of("Window"),
                "Another window; without `policyId`, that of the policy meant.",
            )
            .with(values)
    };
    let change = Object::sent("Other values for one org, or for one app, key or user of it.")
        .may_null("orgId", of("Id"), "As in the path, or left out.")
        .with(written)
        .example(json!({"policyId": "enterprise-records", "limit": 6000, "expiresAt": "2030-01-01T00:00:00Z", "reason": "launch"}));
    let changed = Object::answered("An override, as it was written.")
        .needs("id", of("OverrideId"), "")
        .needs("orgId", of("Id"), "The org it belongs to.")
        .with(written)
        .with(source);
    let class = |object: Object| {
        object
            .needs(
                "pattern",
                of("EndpointPattern"),
                "The routes, by pattern; no class.",
            )
            .needs("class", of("Id"), "What they are counted as.")
    };
    let mut classes = list(&of("EndpointClass"));
    classes["description"] = json!("The ordered list; the first match wins.");
    classes["examples"] = json!([[{"pattern": "POST /v1/exports", "class": "heavy"}]]);
    vec![
        ("PolicyWritten", policy),
        ("Policy", shown),
        ("OverrideWritten", change.schema()),
        ("Override", changed.schema()),
        (
            "EndpointClass",
            class(Object::sent("Routes that are counted together.")).schema(),
        ),
        ("EndpointClassesWritten", classes),
        (
            "EndpointClasses",
            list(
                &class(Object::answered("Routes that are counted together."))
                    .with(source)
                    .schema(),
            ),
        ),
    ]
}

fn needed(object: Object) -> Object {
    object
        .needs("limit", whole(MAX_LIMIT), "What a window admits.")
        .needs("window", of("Window"), "")
}

/// What a policy is chosen by.
fn selection(object: Object) -> Object {
    object
        .may_null("orgTier", some_text(), "A tier's name, or `*` for all, the default.")
        .with(route)
        .may_null(
            "match",
            json!({"type": "object", "propertyNames": of("Id"), "additionalProperties": of("Id"), "examples": [{"region": "eu", "model": "big*"}]}),
            "Only requests with these descriptors; a final `*` is the rest of a value.",
        )
        .may_null(
            "descriptor",
            json!({
                "type": "object",
                "required": ["domain", "entries"],
                "additionalProperties": false,
                "properties": {
                    "domain": of("Id"),
                    "entries": {"type": "array", "minItems": 1, "maxItems": 32, "items": {
                        "type": "object",
                        "required": ["key"],
                        "additionalProperties": false,
                        "properties": {"key": of("Id"), "value": of("Id")},
                    }},
                },
                "examples": [{"domain": "edge", "entries": [{"key": "path", "value": "/v1/*"}, {"key": "remote_address"}]}],
            }),
            "Only descriptors of Envoy with this domain and just these entries, in order. Of several policies that fit, an exact value comes before one with `*`, and that before an entry without a value.",
        )
        .may_null(
            "replaces",
            json!({"type": "array", "items": some_text()}),
            "Ids of policies that do not count for requests for which this one does.",
        )
        .may_null(
            "quotaMode",
            flag(),
            "Of the descriptors of a request that have such a limit, only all together can refuse it.",
        )
}

fn route(object: Object) -> Object {
    object
        .may_null(
            "scope",
            of("Scope"),
            "What is counted together; `org` by default.",
        )
        .may_null(
            "endpointPattern",
            of("EndpointPattern"),
            "The routes it is for; `*` by default.",
        )
        .may_null(
            "requiredScope",
            some_text(),
            "Only requests that carry this permission.",
        )
}

/// Whom of an org an override is for, and which policy.
fn overriding(object: Object) -> Object {
    object
        .may_null(
            "policyId",
            some_text(),
            "The policy; else it is found by `scope`, `endpointPattern`, `requiredScope` and `window`.",
        )
        .may_null(
            "appId",
            of("Id"),
            "Only this app. At most one of `appId`, `keyId` and `userId`.",
        )
        .may_null("keyId", of("Id"), "Only this key.")
        .may_null("userId", of("Id"), "Only this user.")
        .with(route)
        .may_null("expiresAt", instant(), "When it ends.")
        .may_null("reason", some_prose(), "Why; the audit keeps it.")
}

/// What policies and overrides have in common, without limit and window.
fn values(object: Object) -> Object {
    let algorithms = [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
        "quota",
    ];
    object
        .may_null("algorithm", one_of(&algorithms), "How it counts; `quota` for calendar windows, else `token_bucket`.")
        .may_null("burst", whole(MAX_LIMIT), "A bucket's capacity; `limit` if left out.")
        .may_null("anchor", one_of(&["epoch", "first"]), "Where a fixed window begins; `epoch` by default.")
        .may_null("timezone", some_text(), "Whose midnight a quota resets at: `UTC`, a zone's name, or `org`.")
        .may_null("counter", of("Id"), "The count's name.")
        .may_null("unit", of("Id"), "What of the request it counts: a name in its `costs`.")
        .may_null("failMode", one_of(&["open", "closed", "local"]), "What happens when a shared store can't answer.")
        .may_null("mode", one_of(&["enforce", "shadow", "soft", "off"]), "What it does; `enforce` by default.")
        .may_null(
            "accuracy",
            json!({"type": "string", "pattern": "^(exact|[0-9]+(\\.[0-9]{0,2})?%)$", "examples": ["exact", "5%"]}),
            "`exact`, or how much of the limit may lie unused in nodes, above 0% and up to 100%.",
        )
        .may_null("resetJitter", of("Length"), "How far apart clients are told to come back.")
        .may_null("expose", flag(), "Whether clients may see it in headers.")
        .may_null("ipv4Prefix", whole(32), "How many bits of an IPv4 address are counted apart.")
        .may_null("ipv6Prefix", whole(128), "How many bits of an IPv6 address are counted apart.")
}
