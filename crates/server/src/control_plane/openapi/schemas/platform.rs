//! Tokens, the audit, readiness, and what goes wrong.

use serde_json::{Value, json};

use super::left_out;
use super::object::{Object, flag, instant, list, name, of, one_of, text, whole};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = tokens();
    all.extend(answers());
    all.extend(standing());
    all
}

fn tokens() -> Vec<(&'static str, Value)> {
    let shown = |about| {
        Object::answered(about)
            .needs("id", of("TokenId"), "")
            .needs("role", of("Role"), "")
            .shows("orgId", of("Id"), "The org of a tenant.")
            .shows("name", text(), "What people call it.")
            .needs("prefix", text(), "How its secret begins.")
            .needs("createdAt", instant(), "When it was made.")
            .needs("createdBy", text(), "Who made it, as the audit names them.")
            .shows("expiresAt", instant(), "From when on it no longer works.")
    };
    vec![
        (
            "TokenWritten",
            Object::sent("A wish for a token of the control plane.")
                .needs("role", of("Role"), "")
                .may_null("orgId", of("Id"), "The org of a tenant-admin or tenant-viewer; the other roles have none.")
                .may_null("name", name(), "What people call it.")
                .may_null("expiresAt", instant(), "From when on it no longer works.")
                .example(json!({
                    "role": "tenant-viewer",
                    "orgId": "acme",
                    "name": "the dashboard",
                    "expiresAt": "2999-01-01T00:00:00Z",
                }))
                .schema(),
        ),
        (
            "Token",
            shown("A token of the control plane.").with(left_out).schema(),
        ),
        (
            "TokenMade",
            shown("A token that was just made.")
                .may("secret", text(), "What is sent as `Authorization: Bearer`. It is never shown again, not even when the request is repeated with its `Idempotency-Key`.")
                .schema(),
        ),
    ]
}

fn answers() -> Vec<(&'static str, Value)> {
    let anything = || json!({});
    let change = |object: Object| {
        object
            .needs(
                "kind",
                text(),
                "What it is: `org`, `policy`, and so on; `unknown` if only a newer version knows it.",
            )
            .shows("orgId", text(), "The org it belongs to.")
            .needs("id", text(), "Which one.")
            .needs("before", anything(), "As it was; null if there was none.")
            .needs("after", anything(), "As it is then; null if it is deleted.")
    };
    vec![
        (
            "Problem",
            Object::answered("What is wrong (RFC 9457).")
                .needs("type", text(), "")
                .needs("title", text(), "A short name for people.")
                .needs(
                    "status",
                    json!({"type": "integer", "minimum": 400, "maximum": 599}),
                    "The HTTP status.",
                )
                .needs(
                    "detail",
                    text(),
                    "What is wrong, in a sentence that names the field.",
                )
                .needs("error", text(), "A short name for programs.")
                .needs("message", text(), "As `detail`.")
                .schema(),
        ),
        (
            "DryRun",
            Object::answered("What a write would change.")
                .needs("dryRun", json!({"type": "boolean", "const": true}), "")
                .needs(
                    "changes",
                    list(&Object::answered("One change.").with(change).schema()),
                    "At most 1,000 of them.",
                )
                .needs("total", whole(i64::MAX.unsigned_abs()), "How many there are.")
                .schema(),
        ),
        (
            "AuditRow",
            Object::answered("A change: who made it, when, and what it was.")
                .needs(
                    "revision",
                    whole(i64::MAX.unsigned_abs()),
                    "Its place in the order of all changes.",
                )
                .needs("at", instant(), "")
                .needs("actor", text(), "Whose token it was.")
                .needs("route", text(), "The method and path.")
                .needs("requestId", text(), "The `X-Request-Id`.")
                .shows("reason", text(), "Why, if the change said.")
                .needs(
                    "hash",
                    text(),
                    "SHA-256 over the row and the hash of the one before.",
                )
                .with(change)
                .schema(),
        ),
        (
            "Verification",
            Object::answered("Whether every row of the audit is chained to the one before, and every entry what its last row says.")
                .needs("intact", flag(), "")
                .needs(
                    "rows",
                    json!({"type": "integer", "minimum": 0}),
                    "How many there are.",
                )
                .shows(
                    "firstBroken",
                    json!({"type": "integer"}),
                    "The first revision that does not fit, or is missing.",
                )
                .needs(
                    "differing",
                    list(
                        &Object::answered("An entry that is not what the last row about it says.")
                            .needs("kind", text(), "")
                            .shows("orgId", text(), "")
                            .needs("id", text(), "")
                            .schema(),
                    ),
                    "At most 100 of them.",
                )
                .needs(
                    "head",
                    Object::answered("The last row.")
                        .needs("revision", whole(i64::MAX.unsigned_abs()), "")
                        .needs("hash", text(), "")
                        .schema(),
                    "Where the audit ends.",
                )
                .shows(
                    "keyedFrom",
                    json!({"type": "integer"}),
                    "The first revision that was made with the key of `--audit-key`.",
                )
                .schema(),
        ),
    ]
}

fn standing() -> Vec<(&'static str, Value)> {
    vec![
        (
            "Fleet",
            Object::answered("The nodes that share counters.")
                .needs("region", text(), "The region, whose counters are its own.")
                .needs(
                    "store",
                    json!({"type": "object"}),
                    "Where counters are, and how it is.",
                )
                .needs(
                    "nodes",
                    list(&json!({"type": "object"})),
                    "Nodes heard of in the last ten minutes.",
                )
                .needs(
                    "sharedBy",
                    json!({"type": "integer"}),
                    "How many nodes the limits are shared by while the store is unavailable.",
                )
                .shows(
                    "sharedByFrom",
                    one_of(&["redis", "dataDirectory", "setting", "assumption"]),
                    "How that is known: from Redis, from what this node knew when it last ran, by the setting \
                     `--fleet-nodes`, or not at all. Null without a fleet.",
                )
                .needs(
                    "leases",
                    json!({"type": ["object", "null"]}),
                    "What this node has borrowed.",
                )
                .needs(
                    "fallback",
                    json!({"type": ["object", "null"]}),
                    "What was decided without the store.",
                )
                .needs(
                    "mirror",
                    json!({"type": ["object", "null"]}),
                    "The catalogue's copy in Redis.",
                )
                .needs(
                    "accuracy",
                    list(&unused()),
                    "What lies unused in the leases of all nodes, by the accuracy that policies ask for.",
                )
                .schema(),
        ),
        ("Readiness", readiness()),
    ]
}

fn unused() -> Value {
    let percent = || json!({"type": "number", "minimum": 0});
    Object::answered("What lies unused of the limits of one class.")
        .needs(
            "class",
            one_of(&["exact", "1%", "5%", "10%", "more"]),
            "The `accuracy` of their policies, at most.",
        )
        .needs("counters", json!({"type": "integer"}), "How many are in use.")
        .needs("unusedPercent", percent(), "Of the limit, on average.")
        .needs(
            "mostUnusedPercent",
            percent(),
            "Of the limit of which the most is.",
        )
        .schema()
}

fn readiness() -> Value {
    let part = Object::answered("A part that is unavailable.")
        .needs("part", text(), "Its name: `redis`, `database` or `quotas`.")
        .needs("detail", text(), "What that means.")
        .schema();
    Object::answered("Readiness, and what is in force.")
        .needs(
            "status",
            one_of(&["ready", "degraded", "draining"]),
            "`degraded` while a part is unavailable, `draining` before the server ends.",
        )
        .needs("degraded", list(&part), "The parts that are unavailable.")
        .needs(
            "warnings",
            list(&text()),
            "What an operator should know: that the built-in demonstration set is in force, and what is not shared by \
             nodes that share a Redis.",
        )
        .needs(
            "leftOut",
            list(
                &Object::answered("Something of the catalogue that has no effect on this node.")
                    .needs("kind", text(), "What it is: `policy`, `override`, and so on.")
                    .shows("id", text(), "Which one; null for orgs and users.")
                    .needs("why", text(), "Why it does not fit.")
                    .schema(),
            ),
            "At most 20 of those that have no effect here, since they don't fit this node's policy file.",
        )
        .needs("leftOutCount", json!({"type": "integer"}), "How many there are.")
        .needs(
            "store",
            one_of(&["memory", "redis", "away"]),
            "Where counters are; `away` while Redis does not answer.",
        )
        .shows(
            "storeTrouble",
            one_of(&[
                "unreachable",
                "timedOut",
                "refused",
                "evicts",
                "replica",
                "isCluster",
                "noCluster",
                "unwell",
                "strange",
            ]),
            "Why a server of Redis is sent no calls: `evicts` if it may evict counters. Null if nothing is known to be wrong.",
        )
        .needs("catalogue", text(), "The catalogue's database, or `away`.")
        .needs(
            "catalogueRevision",
            json!({"type": "integer"}),
            "The last change that is in force here.",
        )
        .needs(
            "catalogueFrom",
            one_of(&["disk", "redis", "database"]),
            "Where it was read from; `database` once that has answered.",
        )
        .shows(
            "policyFile",
            one_of(&["inForce", "refused", "waiting"]),
            "What became of the policy file as it is now: `refused` if something is wrong with it, `waiting` \
             until the catalogue's database answers. Null if there is no file.",
        )
        .needs("policyRevision", json!({"type": "integer"}), "")
        .needs("policies", json!({"type": "integer"}), "")
        .needs("orgs", json!({"type": "integer"}), "")
        .schema()
}
