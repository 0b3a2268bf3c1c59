//! What was used of quotas.

use serde_json::{Value, json};
use tollgate_core::MAX_LIMIT;

use super::object::{Object, instant, list, needed_reason, of, one_of, text, whole};

/// What was counted.
fn sums(object: Object) -> Object {
    let number = || json!({"type": "integer", "minimum": 0});
    object
        .needs("allowed", number(), "Requests that were allowed.")
        .needs("denied", number(), "Requests that were denied.")
        .needs("cost", number(), "What the allowed ones cost.")
}

/// A threshold that was reached.
fn alert() -> Value {
    let number = json!({"type": "integer", "minimum": 1, "maximum": 100});
    Object::answered("A threshold of a quota that was reached.")
        .needs("threshold", number, "In percent of the limit.")
        .needs("at", instant(), "When it was noticed.")
        .schema()
}

/// What somebody writes who corrects what was used.
fn correction() -> Value {
    Object::sent("What was used of a quota, and why that is not what was counted: one of `used` and `grant`.")
        .needs("reason", needed_reason(), "Why; the audit keeps it.")
        .may("used", whole(MAX_LIMIT), "What was used in the period.")
        .may(
            "grant",
            whole(MAX_LIMIT),
            "So much less was used; at most what was.",
        )
        .example(json!({"used": 1_000, "reason": "an outage of ours"}))
        .schema()
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let number = || json!({"type": "integer", "minimum": 0});
    vec![
        (
            "QuotaId",
            json!({"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "A counter of a quota."}),
        ),
        ("QuotaAlert", alert()),
        (
            "Quota",
            Object::answered("What was used of a quota in its present period.")
                .shows(
                    "quotaId",
                    of("QuotaId"),
                    "Its counter; null if nothing was used yet.",
                )
                .needs("policyId", text(), "The policy.")
                .needs("scope", text(), "What is counted together.")
                .needs("endpointPattern", text(), "The routes it is for.")
                .needs("window", text(), "`day`, `week`, `month` or `billing_month`.")
                .shows(
                    "unit",
                    text(),
                    "What of the request it counts; null for its cost.",
                )
                .needs("environment", one_of(&["live", "test"]), "Whose keys it counts.")
                .may_null("appId", text(), "The app, if apps are counted apart.")
                .may_null("keyId", text(), "The key, if keys are counted apart.")
                .may_null("userId", text(), "The user, if users are counted apart.")
                .may_null(
                    "ip",
                    text(),
                    "An address of the network, if networks are counted apart.",
                )
                .needs("limit", number(), "The limit it was last asked about with.")
                .needs("used", number(), "What was used, without what is reserved.")
                .needs(
                    "reserved",
                    number(),
                    "What is reserved and not settled: on the node that answers, or with Redis on all.",
                )
                .needs(
                    "alerts",
                    list(&of("QuotaAlert")),
                    "The thresholds that were reached in this period, in the order in which they were.",
                )
                .needs("remaining", number(), "What is left.")
                .needs("periodStart", instant(), "When the period began.")
                .needs("periodEnd", instant(), "When it ends.")
                .needs("nextReset", instant(), "When it begins anew.")
                .shows(
                    "projectedEnd",
                    instant(),
                    "When it will be used up at the pace of the period so far; null if it will not.",
                )
                .schema(),
        ),
        (
            "Statement",
            Object::answered("What an org used in a month.")
                .needs("orgId", of("Id"), "")
                .needs("from", instant(), "When the month begins in the org's zone.")
                .needs("to", instant(), "When it ends.")
                .with(sums)
                .needs(
                    "items",
                    list(&of("StatementItem")),
                    "By app, class of endpoint and environment.",
                )
                .schema(),
        ),
        (
            "StatementItem",
            Object::answered("What an app used of a class of endpoints.")
                .shows("appId", text(), "The app; null where none was named.")
                .shows(
                    "endpoint",
                    text(),
                    "The endpoint's class; null where it has none.",
                )
                .needs("environment", one_of(&["live", "test"]), "Whose keys were used.")
                .with(sums)
                .schema(),
        ),
        ("CorrectionWritten", correction()),
    ]
}
