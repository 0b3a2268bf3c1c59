//! Tiers, orgs and what belongs to an org.

use serde_json::{Value, json};

use super::super::super::keys::MAX_OVERLAP_MS;
use super::object::{Object, flag, instant, list, name, needed_reason, of, one_of, prose, some_text, text};
use super::{left_out, source};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = plans();
    all.extend(callers());
    all
}

fn plans() -> Vec<(&'static str, Value)> {
    let org = |object: Object| {
        object
            .may_null("tier", some_text(), "The plan it is on; `default` if left out.")
            .may_null("timezone", some_text(), "A zone's name; `UTC` if left out.")
            .may_null(
                "billingAnchor",
                of("BillingAnchor"),
                "Where its billing months begin; the 1st if left out.",
            )
    };
    let user = |object: Object| {
        object
            .needs(
                "tier",
                some_text(),
                "The tier whose limits on users hold for this one.",
            )
            .may_null(
                "billingAnchor",
                of("BillingAnchor"),
                "Where their billing months begin; as the org's if left out.",
            )
    };
    vec![
        (
            "TierWritten",
            Object::sent("A plan: all there is to it is its name.")
                .may("tier", of("Id"), "As in the path, or left out.")
                .example(json!({}))
                .schema(),
        ),
        (
            "Tier",
            Object::answered("A plan.")
                .needs("tier", of("Id"), "Its name.")
                .with(source)
                .schema(),
        ),
        (
            "OrgWritten",
            Object::sent("An organization.")
                .may("orgId", of("Id"), "As in the path, or left out.")
                .with(org)
                .example(json!({"timezone": "Europe/Berlin", "billingAnchor": "2024-01-31"}))
                .schema(),
        ),
        (
            "Org",
            Object::answered("An organization, as it was written.")
                .needs("orgId", of("Id"), "")
                .with(org)
                .with(source)
                .schema(),
        ),
        (
            "UserWritten",
            Object::sent("A user with a plan of their own.")
                .may("userId", of("Id"), "As in the path, or left out.")
                .with(user)
                .example(json!({"tier": "Enterprise"}))
                .schema(),
        ),
        (
            "User",
            Object::answered("A user with a plan of their own.")
                .needs("userId", of("Id"), "")
                .with(user)
                .with(left_out)
                .schema(),
        ),
    ]
}

fn callers() -> Vec<(&'static str, Value)> {
    let app = |object: Object| {
        object.may_null("name", name(), "What people call it.").may_null(
            "description",
            prose(),
            "What it is for.",
        )
    };
    let reset = |object: Object| {
        object
            .needs("reason", needed_reason(), "Why; the audit keeps it.")
            .may("policyId", of("Id"), "Only the counters of this policy.")
            .may(
                "appId",
                of("Id"),
                "Only those of this app. At most one of `appId`, `keyId` and `userId`.",
            )
            .may("keyId", of("Id"), "Only those of this key.")
            .may("userId", of("Id"), "Only those of this user.")
            .may(
                "quotas",
                flag(),
                "Those of quotas, too. Left out: only with a `policyId`, which may be a quota's.",
            )
    };
    let emptied = Object::answered("A limit whose counters were emptied.")
        .needs("policyId", text(), "")
        .needs("scope", text(), "")
        .needs("window", text(), "")
        .needs("quota", flag(), "It is a quota.");
    vec![
        (
            "AppWritten",
            Object::sent("What of an org calls the API.")
                .may("appId", of("Id"), "As in the path, or left out.")
                .with(app)
                .example(json!({"name": "Web shop"}))
                .schema(),
        ),
        ("App", Object::answered("An app.").needs("appId", of("Id"), "").with(app).schema()),
        (
            "KeyWritten",
            Object::sent("A wish for an API key.")
                .may_null("keyId", of("Id"), "Its id within the org; made up if left out.")
                .may("environment", one_of(&["live", "test"]), "`live` by default; the two are counted apart.")
                .may_null("expiresAt", instant(), "From when on it no longer works.")
                .example(json!({"environment": "live"}))
                .schema(),
        ),
        ("Key", key("An API key.").with(left_out).schema()),
        (
            "KeyMade",
            key("An API key that was just made.")
                .may("secret", text(), "What the API's callers send. It is never shown again, not even when the request is repeated with its `Idempotency-Key`.")
                .schema(),
        ),
        (
            "Rotation",
            Object::sent("How a key's secret is replaced.")
                .may(
                    "overlapMs",
                    json!({"type": "integer", "minimum": 0, "maximum": MAX_OVERLAP_MS}),
                    "How long the old secret goes on to work; a day if left out.",
                )
                .example(json!({"overlapMs": 3_600_000}))
                .schema(),
        ),
        (
            "ResetWritten",
            Object::sent("Whose counters are emptied, and why.").with(reset).example(json!({"reason": "a test ran wild"})).schema(),
        ),
        ("Reset", Object::answered("Whose counters were emptied, and why.")
            .with(reset)
            .needs("reset", list(&emptied.schema()), "The limits whose counters were emptied.")
            .schema()),
    ]
}

fn key(about: &'static str) -> Object {
    Object::answered(about)
        .needs("keyId", of("Id"), "")
        .needs("appId", of("Id"), "The app it belongs to.")
        .needs("environment", one_of(&["live", "test"]), "")
        .needs("prefix", text(), "How its secret begins.")
        .needs("createdAt", instant(), "When its secret was made.")
        .shows("expiresAt", instant(), "From when on it no longer works.")
        .shows(
            "formerSecretsUntil",
            instant(),
            "Until when a secret that it had before it was rotated works.",
        )
}
