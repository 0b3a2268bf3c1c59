//! `/v1/orgs/{orgId}/ratelimit/overrides`: other values for one org, or for one app, key or user of it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tollgate_catalog::model::Override;
use tollgate_catalog::repository::{Entry, Kind};

use super::answer::{Answer, Answered, document};
use super::ask::{Ask, Path, now_ms};
use super::lists::{list, within};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
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
                     limit for that org, else 422.",
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
    list(&ask, Kind::Override, &org, BTreeMap::new(), shown).await
}

/// One override.
pub(super) async fn get(Path((org, id)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    let place = within(&org, Kind::Override, &id);
    let entry = ask.plane.catalogue.repository().get(&place).await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    Ok(Answer::entry(&entry, shown(&entry)))
}

/// Makes an override.
pub(super) async fn post(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "orgId", &org)?;
    let body = Value::Object(members);
    read_document::<Override>(&body).map_err(WriteError::Problems)?;
    // Made of time and chance: in the order in which they were made, and no two nodes make the same.
    let id = format!("{:012x}{:08x}", now_ms(), getrandom::u32().unwrap_or_default());
    ask.once(async {
        orgs::known(&ask, &org).await?;
        let mut answer = ask.put(&within(&org, Kind::Override, &id), body).await?;
        if answer.status == StatusCode::CREATED {
            answer.body["id"] = json!(id);
        }
        Ok(answer)
    })
    .await
}

/// Ends an override.
pub(super) async fn delete(Path((org, id)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    ask.once(ask.delete(&within(&org, Kind::Override, &id), &[]))
        .await
}

fn shown(entry: &Entry) -> Value {
    let mut shown = document(entry);
    shown["id"] = json!(entry.place.id);
    shown
}
