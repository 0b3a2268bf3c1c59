//! `/v1/ratelimit/rollouts`: a candidate set of policies beside the active one, for a share of the orgs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollgate_catalog::model::{Rollout, RolloutState};
use tollgate_catalog::repository::{Change, Entry, Kind, Place};

use super::answer::{Answer, Answered, document};
use super::ask::{Ask, Path, now_ms};
use super::belongings::Belongings;
use super::lists::{everywhere, list};
use super::openapi::replies;
use super::route::{Group, Route};
use super::rule::Rule;
use super::write::change_shown;
use crate::answer::Problem;
use crate::catalogue::{WriteError, read_document};

fn place(id: &str) -> Place {
    everywhere(Kind::Rollout, id)
}

/// The routes of this file.
pub(super) fn group() -> Group {
    const ALL: &str = "/v1/ratelimit/rollouts";
    const ONE: &str = "/v1/ratelimit/rollouts/{id}";
    let close = |route: Route| {
        route
            .by(Rule::WritePlatform)
            .may_take("RolloutClosing")
            .writes()
            .answers(200, replies::replaced("Rollout"))
    };
    Group {
        name: "Rollouts",
        about: "A candidate set of policies beside the active one, for a share of the orgs.",
        routes: vec![
            Route::get(ALL, index, "listRollouts", "List rollouts, open and closed")
                .by(Rule::ReadPlatform)
                .lists("Rollout"),
            Route::post(ALL, post, "openRollout", "Open a rollout")
                .says("One is open at a time (409). At 0 percent it is only tried: nobody is refused by it.")
                .by(Rule::WritePlatform)
                .takes("RolloutWritten")
                .makes("Rollout"),
            Route::get(ONE, get, "getRollout", "Show a rollout")
                .by(Rule::ReadPlatform)
                .shows("Rollout"),
            Route::put(ONE, put, "putRollout", "Open a rollout, or replace the open one")
                .says("Whole, its percentage too. A larger percentage only adds orgs.")
                .by(Rule::WritePlatform)
                .takes("RolloutWritten")
                .replaces("Rollout"),
            Route::delete(ONE, delete, "deleteRollout", "Delete a rollout that is closed")
                .by(Rule::WritePlatform),
            close(Route::post(
                "/v1/ratelimit/rollouts/{id}/promote",
                promote,
                "promoteRollout",
                "Make the candidate the active set",
            )),
            close(Route::post(
                "/v1/ratelimit/rollouts/{id}/rollback",
                rollback,
                "rollBackRollout",
                "Go back to the active set",
            )),
        ],
    }
}

/// The rollouts, open or closed, in the order of their ids.
pub(super) async fn index(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    list(&ask, Kind::Rollout, "", BTreeMap::new(), document).await
}

/// One rollout.
pub(super) async fn get(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let entry = ask.plane.catalogue.repository().get(&place(&id)).await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    Ok(ask.shows(&entry, document(&entry)))
}

/// Opens a rollout, under an id that is given or made.
pub(super) async fn post(ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    let mut members = ask.object()?;
    let made = || {
        json!(format!(
            "{:012x}{:08x}",
            now_ms(),
            getrandom::u32().unwrap_or_default()
        ))
    };
    if members.get("id").is_none_or(Value::is_null) {
        members.insert("id".to_owned(), made());
    }
    let (id, body) = opened(members)?;
    let is_new = |before: Option<&Entry>| match before {
        None => Ok(()),
        Some(_) => Err(Problem::conflict(format!("There is a rollout `{id}` already."))),
    };
    ask.once(async {
        let answer = ask
            .put_if(&[], &place(&id), body, is_new, |answer| answer)
            .await?;
        with_promotion(&ask, answer).await
    })
    .await
}

/// Replaces an open rollout whole, its percentage too, or opens one.
pub(super) async fn put(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    let mut members = ask.object()?;
    Ask::named(&mut members, "id", &id)?;
    let (_, body) = opened(members)?;
    let is_open = |before: Option<&Entry>| before.map_or(Ok(()), |before| open(before).map(drop));
    ask.once(async {
        let answer = ask
            .put_if(&[], &place(&id), body, is_open, |answer| answer)
            .await?;
        with_promotion(&ask, answer).await
    })
    .await
}

/// Makes the candidate the active set, at once.
pub(super) async fn promote(Path(id): Path<String>, ask: Ask) -> Answered {
    close(&ask, &id, RolloutState::Promoted).await
}

/// Goes back to the active set, at once.
pub(super) async fn rollback(Path(id): Path<String>, ask: Ask) -> Answered {
    close(&ask, &id, RolloutState::RolledBack).await
}

/// Forgets a rollout that is closed.
pub(super) async fn delete(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    ask.once(ask.delete(&place(&id), Belongings::None)).await
}

async fn close(ask: &Ask, id: &str, state: RolloutState) -> Answered {
    ask.caller.write_platform()?;
    let reason = reason(ask.object()?)?;
    let changes = |before: &Entry| {
        let mut body = open(before)?;
        let mut changes = match state {
            RolloutState::Promoted => promotion(&body),
            _ => Vec::new(),
        };
        body["state"] = json!(state.name());
        changes.push(Change {
            place: before.place.clone(),
            body: Some(body.to_string()),
        });
        Ok(changes)
    };
    ask.once(ask.change(&place(id), &reason, changes)).await
}

/// A rollout as it is kept: all members are there, and every policy has its id.
fn opened(mut members: Map<String, Value>) -> Result<(String, Value), Problem> {
    let rollout: Rollout = read_document(&Value::Object(members.clone())).map_err(WriteError::Problems)?;
    if rollout.state != RolloutState::Open {
        return Err(Problem::unprocessable(
            "`state` can only be open: a rollout is closed by promote or rollback.",
        ));
    }
    let mut policies = members.remove("policies").unwrap_or_default();
    for (policy, read) in policies
        .as_array_mut()
        .into_iter()
        .flatten()
        .zip(&rollout.policies)
    {
        policy["id"] = json!(read.id);
    }
    members.insert(
        "policies".to_owned(),
        json!(policies.as_array().cloned().unwrap_or_default()),
    );
    members.insert("id".to_owned(), json!(rollout.share.rollout));
    members.insert("removes".to_owned(), json!(rollout.removes));
    members.insert("percent".to_owned(), json!(rollout.share.percent));
    members.insert("state".to_owned(), json!(rollout.state.name()));
    Ok((rollout.share.rollout, Value::Object(members)))
}

/// The document of a rollout that is open; a closed one stays as it is.
fn open(entry: &Entry) -> Result<Value, Problem> {
    let body = document(entry);
    match body["state"].as_str() {
        Some(state) if state != RolloutState::Open.name() => Err(Problem::conflict(format!(
            "The rollout `{}` is closed: {state}.",
            entry.place.id
        ))),
        _ => Ok(body),
    }
}

/// What becomes of policies when a rollout is promoted.
fn promotion(body: &Value) -> Vec<Change> {
    let change = |id: Option<&str>, body: Option<&Value>| {
        id.map(|id| Change {
            place: everywhere(Kind::Policy, id),
            body: body.map(ToString::to_string),
        })
    };
    let written = body["policies"].as_array().into_iter().flatten();
    let written = written.filter_map(|policy| change(policy["id"].as_str(), Some(policy)));
    let removed = body["removes"].as_array().into_iter().flatten();
    let removed = removed.filter_map(|id| change(id.as_str(), None));
    written.chain(removed).collect()
}

/// Adds to a trial what promoting the rollout would change.
async fn with_promotion(ask: &Ask, mut answer: Answer) -> Answered {
    if answer.body["dryRun"] != true {
        return Ok(answer);
    }
    let mut shown = Vec::new();
    for change in promotion(&answer.body["changes"][0]["after"]) {
        let before = ask.plane.catalogue.repository().get(&change.place).await;
        let before = before.map_err(WriteError::from)?;
        let after = change.body.and_then(|body| serde_json::from_str(&body).ok());
        shown.push(change_shown(&change.place, before.as_ref(), after.as_ref()));
    }
    answer.body["onPromote"] = json!(shown);
    Ok(answer)
}

/// Why a rollout is closed, for the audit.
fn reason(members: Map<String, Value>) -> Result<String, Problem> {
    let mut reason = String::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("reason", Value::String(text)) => reason = text,
            ("reason", Value::Null) => {}
            ("reason", _) => return Err(Problem::unprocessable("`reason` must be text.")),
            _ => {
                return Err(Problem::unprocessable(format!("`{name}` is not a known field.")));
            }
        }
    }
    Ok(reason)
}
