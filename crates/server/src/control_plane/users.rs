//! `/v1/orgs/{orgId}/users`: users with a plan of their own.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_catalog::model::UserPlan;
use tollgate_catalog::repository::Kind;

use super::answer::{Answered, document};
use super::ask::{Ask, Path};
use super::belongings::Belongings;
use super::lists::{list, within};
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::{WriteError, read_document};

/// The routes of this file.
pub(super) fn group() -> Group {
    const ONE: &str = "/v1/orgs/{orgId}/users/{userId}";
    Group {
        name: "Users",
        about: "Users with a plan of their own: the limits on users of that tier hold for them instead of those of \
                the org's.",
        routes: vec![
            Route::get(
                "/v1/orgs/{orgId}/users",
                index,
                "listUsers",
                "List users with a plan",
            )
            .by(Rule::ReadOrg)
            .lists("User"),
            Route::get(ONE, get, "getUser", "Show a user's plan")
                .by(Rule::ReadOrg)
                .shows("User"),
            Route::put(ONE, put, "putUser", "Put a user on a tier")
                .by(Rule::WriteOrgPlan)
                .takes("UserWritten")
                .replaces("User"),
            Route::delete(ONE, delete, "deleteUser", "Put a user back on the org's tier")
                .by(Rule::WriteOrgPlan),
        ],
    }
}

/// An org's users with a plan of their own.
pub(super) async fn index(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    orgs::known(&ask, &org).await?;
    list(&ask, Kind::User, &org, BTreeMap::new(), document).await
}

/// One user.
pub(super) async fn get(Path((org, user)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    let place = within(&org, Kind::User, &user);
    let entry = ask.plane.catalogue.repository().get(&place).await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    Ok(ask.shows(&entry, document(&entry)))
}

/// Puts a user on a tier.
pub(super) async fn put(Path((org, user)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "userId", &user)?;
    let body = Value::Object(members);
    read_document::<UserPlan>(&body).map_err(WriteError::Problems)?;
    let place = within(&org, Kind::User, &user);
    ask.once(ask.put_below(&[orgs::place(&org)], &place, body)).await
}

/// Puts a user back on the org's tier.
pub(super) async fn delete(Path((org, user)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    ask.once(ask.delete(&within(&org, Kind::User, &user), Belongings::None))
        .await
}
