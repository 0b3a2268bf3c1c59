//! Rollouts.

use serde_json::{Value, json};

use super::left_out;
use super::object::{Object, list, of, one_of, prose, text, whole};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let written = Object::sent("A candidate set of policies beside the active one, for a share of the orgs.")
        .may_null("id", of("PolicyId"), "Left out, one is made.")
        .may_null(
            "percent",
            whole(100),
            "How many of a hundred orgs it decides; 0 if left out.",
        )
        .may_null(
            "policies",
            list(&of("PolicyWritten")),
            "In place of active policies of the same id, or beside them.",
        )
        .may_null("removes", list(&of("PolicyId")), "Active policies that it lacks.")
        .may_null("reason", prose(), "Why, for the audit.")
        .may_null("state", one_of(&["open"]), "It is closed by promote or rollback.")
        .example(json!({
            "id": "summer", "percent": 10, "reason": "fewer bursts",
            "policies": [{"id": "enterprise-records", "orgTier": "Enterprise", "limit": 800, "window": "1m"}],
        }));
    let shown = Object::answered("A rollout, as it was written.")
        .needs("id", of("PolicyId"), "")
        .needs("percent", whole(100), "")
        .needs("policies", list(&of("Policy")), "")
        .needs("removes", list(&of("PolicyId")), "")
        .needs(
            "state",
            one_of(&["open", "promoted", "rolledBack"]),
            "What became of it.",
        )
        .may_null("reason", text(), "")
        .with(left_out);
    let closing = Object::sent("Why a rollout is closed.")
        .may_null("reason", prose(), "For the audit.")
        .example(json!({"reason": "quiet for a week"}));
    vec![
        ("RolloutWritten", written.schema()),
        ("Rollout", shown.schema()),
        ("RolloutClosing", closing.schema()),
    ]
}
