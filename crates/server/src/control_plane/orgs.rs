//! `/v1/orgs`: organizations and the tier each is on.

use serde_json::Value;
use tollgate_catalog::model::Org;
use tollgate_catalog::repository::{Kind, Place};

use super::answer::{Answer, Answered, document, of_file};
use super::ask::{Ask, Path};
use super::belongings::Belongings;
use super::lists::{everywhere, list};
use super::plan_change::{self, Carried};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::{WriteError, read_document};

pub(super) fn place(org: &str) -> Place {
    everywhere(Kind::Org, org)
}

/// The routes of this file.
pub(super) fn group() -> Group {
    const ONE: &str = "/v1/orgs/{orgId}";
    Group {
        name: "Orgs",
        about: "Organizations and the tier each is on.",
        routes: vec![
            Route::get("/v1/orgs", index, "listOrgs", "List orgs")
                .says("A tenant sees its own org.")
                .by(Rule::ReadOrg)
                .lists("Org"),
            Route::get(ONE, get, "getOrg", "Show an org")
                .by(Rule::ReadOrg)
                .shows("Org"),
            Route::put(ONE, put, "putOrg", "Make or replace an org")
                .says(
                    "A tier that is not there is refused (422). Another one keeps what was used of quotas that count the \
                     same, unless `usage` says otherwise.",
                )
                .asks("usage")
                .by(Rule::WriteOrgPlan)
                .may_take("OrgWritten")
                .replaces("Org"),
            Route::delete(ONE, delete, "deleteOrg", "Delete an org with all that is its own")
                .by(Rule::WriteOrgPlan),
        ],
    }
}

/// The orgs that the caller may see, in the order of their ids.
pub(super) async fn index(ask: Ask) -> Answered {
    if let Some(own) = ask.caller.org.clone().filter(|_| ask.caller.role.within_org()) {
        let shown = shown(&ask, &own).await?;
        return Ok(super::answer::listed(
            shown.map(|answer| answer.body).into_iter().collect(),
            None,
        ));
    }
    ask.caller.read_platform()?;
    let file = ask.plane.catalogue.file();
    let own = file.set.orgs.iter().filter(|_| file.given);
    let own = own.map(|org| (org.id.clone(), of_file(org.written())));
    list(&ask, Kind::Org, "", own.collect(), document).await
}

/// One org.
pub(super) async fn get(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    shown(&ask, &org).await?.ok_or_else(Problem::not_found)
}

/// Makes or replaces an org.
pub(super) async fn put(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "orgId", &org)?;
    let body = Value::Object(members);
    read_document::<Org>(&body).map_err(WriteError::Problems)?;
    let carried = Carried::asked(&ask)?;
    let put = async {
        let before = ask.plane.engine.snapshot_full();
        // A policy file may have dropped an org of this name: what was its own is not the next one's.
        let left_behind = if ask.plane.catalogue.file().knows(&org) {
            Belongings::None
        } else {
            Belongings::OfOrg(&org)
        };
        let (place, allow) = (place(&org), |_: Option<&_>| Ok(()));
        let answer = ask
            .put_anew(&[], &place, body, left_behind, allow, |answer| answer)
            .await?;
        if !ask.dry_run()? {
            plan_change::follow(&ask, &org, carried, &before).await?;
        }
        Ok(answer)
    };
    ask.once(put).await
}

/// Deletes an org with all that is its own.
pub(super) async fn delete(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    ask.once(ask.delete(&place(&org), Belongings::OfOrg(&org))).await
}

/// Refuses what is for an org that is not there.
pub(super) async fn known(ask: &Ask, org: &str) -> Result<(), Problem> {
    shown(ask, org).await?.map(drop).ok_or_else(Problem::not_found)
}

async fn shown(ask: &Ask, org: &str) -> Result<Option<Answer>, Problem> {
    let file = ask.plane.catalogue.file();
    if let Some(org) = file.set.orgs.iter().find(|known| file.given && known.id == org) {
        return Ok(Some(Answer::ok(of_file(org.written()))));
    }
    let entry = ask.plane.catalogue.repository().get(&place(org)).await;
    if let Some(entry) = entry.map_err(WriteError::from)? {
        return Ok(Some(ask.shows(&entry, document(&entry))));
    }
    // One that the file only has overrides for is an org of the default tier.
    let named = file.given && file.overrides_of(org).next().is_some();
    Ok(named.then(|| Answer::ok(of_file(Org::named(org).written()))))
}
