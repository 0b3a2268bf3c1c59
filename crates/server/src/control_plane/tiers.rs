//! `/v1/tiers`: the plans that orgs are on.

use serde_json::{Value, json};
use tollgate_catalog::repository::{Kind, Place};

use super::answer::{Answer, Answered, document};
use super::ask::{Ask, Path};
use super::belongings::Belongings;
use super::lists::{everywhere, list};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::{TierName, WriteError, read_document};

fn place(tier: &str) -> Place {
    everywhere(Kind::Tier, tier)
}

/// The routes of this file.
pub(super) fn group() -> Group {
    const ONE: &str = "/v1/tiers/{tier}";
    Group {
        name: "Tiers",
        about: "The plans that orgs are on.",
        routes: vec![
            Route::get("/v1/tiers", index, "listTiers", "List tiers")
                .by(Rule::ReadPlatform)
                .lists("Tier"),
            Route::get(ONE, get, "getTier", "Show a tier")
                .by(Rule::ReadPlatform)
                .shows("Tier"),
            Route::put(ONE, put, "putTier", "Make or replace a tier")
                .by(Rule::WritePlatform)
                .may_take("TierWritten")
                .replaces("Tier"),
            Route::delete(ONE, delete, "deleteTier", "Delete a tier")
                .says("One that an org, a user or a policy names can't be deleted (409).")
                .by(Rule::WritePlatform),
        ],
    }
}

/// The tiers, in the order of their names.
pub(super) async fn index(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let file = ask.plane.catalogue.file();
    let own = file.set.tiers.iter().filter(|_| file.given);
    let own = own.map(|tier| (tier.clone(), json!({"tier": tier, "source": "file"})));
    list(&ask, Kind::Tier, "", own.collect(), document).await
}

/// One tier.
pub(super) async fn get(Path(tier): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let place = place(&tier);
    if ask.plane.catalogue.file().owns(&place) {
        return Ok(Answer::ok(json!({"tier": tier, "source": "file"})));
    }
    let entry = ask
        .plane
        .catalogue
        .repository()
        .get(&place)
        .await
        .map_err(WriteError::from)?;
    let entry = entry.ok_or_else(Problem::not_found)?;
    Ok(ask.shows(&entry, document(&entry)))
}

/// Makes or replaces a tier.
pub(super) async fn put(Path(tier): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "tier", &tier)?;
    let body = Value::Object(members);
    read_document::<TierName>(&body).map_err(WriteError::Problems)?;
    ask.once(ask.put(&place(&tier), body)).await
}

/// Deletes a tier that nothing names.
pub(super) async fn delete(Path(tier): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    ask.once(ask.delete(&place(&tier), Belongings::None)).await
}
