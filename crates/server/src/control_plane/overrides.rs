//! `/v1/orgs/{orgId}/ratelimit/overrides`: other values for one org, or for one app, key or user of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollgate_catalog::model::Override;
use tollgate_catalog::repository::{Entry, Kind};
use tollgate_catalog::snapshot::Snapshot;

use super::answer::{Answer, Answered, document, of_file};
use super::ask::{Ask, Path, now_ms};
use super::belongings::Belongings;
use super::lists::{list_seen, within};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use super::sight::Sight;
use crate::answer::Problem;
use crate::catalogue::{WriteError, read_document};

/// The routes of this file.
pub(super) fn group() -> Group {
    const ALL: &str = "/v1/orgs/{orgId}/ratelimit/overrides";
    const ONE: &str = "/v1/orgs/{orgId}/ratelimit/overrides/{id}";
    Group {
        name: "Overrides",
        about: "Other values for one org, or for one app, key or user of it.",
        routes: vec![
            Route::get(ALL, index, "listOverrides", "List overrides")
                .by(Rule::ReadOrg)
                .lists("Override"),
            Route::post(ALL, post, "postOverride", "Make an override")
                .says(
                    "It is for the policy that `policyId` names, else for the one that `scope`, `endpointPattern`, \
                     `requiredScope` and `window` fit. Several fit: 422. None fits: with `limit` and `window` a new \
                     limit for that org, else 422. One that sets no value: 422. One for a policy that the open rollout \
                     removes: 409.",
                )
                .by(Rule::WriteOrgPlan)
                .takes("OverrideWritten")
                .makes("Override"),
            Route::get(ONE, get, "getOverride", "Show an override")
                .by(Rule::ReadOrg)
                .shows("Override"),
            Route::delete(ONE, delete, "deleteOverride", "End an override").by(Rule::WriteOrgPlan),
        ],
    }
}

/// An org's overrides.
pub(super) async fn index(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    let file = ask.plane.catalogue.file();
    let (snapshot, sight) = (ask.plane.engine.snapshot_full(), Sight::of(&ask));
    let own = file.overrides_of(&org).filter_map(|(id, change)| {
        let shown = written(&id, change);
        let policy = policy_of(&snapshot, change);
        sight.of_override(policy, &shown).then_some((id, shown))
    });
    let own: BTreeMap<String, Value> = own.collect();
    list_seen(&ask, Kind::Override, &org, own, |entry| {
        let shown = shown(entry);
        sight
            .of_override(shown["policyId"].as_str(), &shown)
            .then_some(shown)
    })
    .await
}

/// One override.
pub(super) async fn get(Path((org, id)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    let sight = Sight::of(&ask);
    if let Some(change) = ask.plane.catalogue.file().override_of(&org, &id) {
        let shown = written(&id, change);
        let snapshot = ask.plane.engine.snapshot_full();
        if !sight.of_override(policy_of(&snapshot, change), &shown) {
            return Err(Problem::not_found());
        }
        return Ok(Answer::ok(shown));
    }
    let place = within(&org, Kind::Override, &id);
    let entry = ask.plane.catalogue.repository().get(&place).await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    let shown = shown(&entry);
    if !sight.of_override(shown["policyId"].as_str(), &shown) {
        return Err(Problem::not_found());
    }
    Ok(ask.shows(&entry, shown))
}

/// Makes an override.
pub(super) async fn post(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "orgId", &org)?;
    let change: Override = read_document(&Value::Object(members.clone())).map_err(WriteError::Problems)?;
    let snapshot = ask.plane.engine.snapshot_full();
    if let Some(policy) = policy_of(&snapshot, &change) {
        if change.changes_nothing() {
            return Err(Problem::unprocessable(format!(
                "The override changes nothing of the policy `{policy}`: beside which policy and whom it is for, it needs \
                 a value such as `limit`, `burst` or `mode`."
            )));
        }
        if change.policy.is_none() {
            members = named(members, policy);
        }
    }
    let body = Value::Object(members);
    // Made of time and chance: in the order in which they were made, and no two nodes make the same.
    let id = format!("{:012x}{:08x}", now_ms(), getrandom::u32().unwrap_or_default());
    ask.once(async {
        let place = within(&org, Kind::Override, &id);
        let with_id = |mut answer: Answer| {
            answer.body["id"] = json!(id);
            answer
        };
        ask.put_if(&[orgs::place(&org)], &place, body, |_| Ok(()), with_id)
            .await
    })
    .await
}

/// Ends an override.
pub(super) async fn delete(Path((org, id)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    ask.once(ask.delete(&within(&org, Kind::Override, &id), Belongings::None))
        .await
}

/// The policy that an override is for, if there is one.
fn policy_of<'a>(snapshot: &'a Snapshot, change: &'a Override) -> Option<&'a str> {
    match &change.policy {
        Some(named) => snapshot.has_policy(named).then_some(named.as_str()),
        None => snapshot.policy_of(change),
    }
}

/// Keeps an override that was found by what it carries with the policy it was found for, whatever policies come to
/// carry the same.
fn named(mut members: Map<String, Value>, policy: &str) -> Map<String, Value> {
    for found_by in ["scope", "endpointPattern", "requiredScope", "window"] {
        members.remove(found_by);
    }
    members.insert("policyId".to_owned(), json!(policy));
    members
}

/// An override of the policy file.
fn written(id: &str, change: &Override) -> Value {
    let mut written = of_file(change.written());
    written["id"] = json!(id);
    written
}

fn shown(entry: &Entry) -> Value {
    let mut shown = document(entry);
    shown["id"] = json!(entry.place.id);
    shown
}
