//! `/v1/orgs/{orgId}/apps`: what of an org calls the API.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_catalog::model::check_id;
use tollgate_catalog::repository::Kind;

use super::answer::{Answered, document};
use super::ask::{Ask, Path};
use super::belongings::Belongings;
use super::lists::{list, within};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::WriteError;

/// The routes of this file.
pub(super) fn group() -> Group {
    const ONE: &str = "/v1/orgs/{orgId}/apps/{appId}";
    Group {
        name: "Apps",
        about: "What of an org calls the API.",
        routes: vec![
            Route::get("/v1/orgs/{orgId}/apps", index, "listApps", "List apps")
                .by(Rule::ReadOrg)
                .lists("App"),
            Route::get(ONE, get, "getApp", "Show an app")
                .by(Rule::ReadOrg)
                .shows("App"),
            Route::put(ONE, put, "putApp", "Make or replace an app")
                .by(Rule::WriteOrgThings)
                .may_take("AppWritten")
                .replaces("App"),
            Route::delete(ONE, delete, "deleteApp", "Delete an app with its keys").by(Rule::WriteOrgThings),
        ],
    }
}

/// An org's apps.
pub(super) async fn index(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    list(&ask, Kind::App, &org, BTreeMap::new(), document).await
}

/// One app.
pub(super) async fn get(Path((org, app)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    let entry = ask
        .plane
        .catalogue
        .repository()
        .get(&within(&org, Kind::App, &app))
        .await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    Ok(ask.shows(&entry, document(&entry)))
}

/// Makes or replaces an app.
pub(super) async fn put(Path((org, app)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_things(&org)?;
    check_id(&app).map_err(|problem| Problem::unprocessable(format!("`appId` {problem}.")))?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "appId", &app)?;
    for (name, value) in &members {
        match (name.as_str(), value) {
            ("appId", _) | ("name" | "description", Value::String(_) | Value::Null) => {}
            ("name" | "description", _) => {
                return Err(Problem::unprocessable(format!("`{name}` must be text.")));
            }
            _ => return Err(Problem::unprocessable(format!("`{name}` is not a known field."))),
        }
    }
    let place = within(&org, Kind::App, &app);
    ask.once(ask.put_below(&[orgs::place(&org)], &place, Value::Object(members)))
        .await
}

/// Deletes an app with its keys.
pub(super) async fn delete(Path((org, app)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_things(&org)?;
    let keys = Belongings::OfApp { org: &org, app: &app };
    ask.once(ask.delete(&within(&org, Kind::App, &app), keys)).await
}
