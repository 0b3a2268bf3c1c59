//! `POST /v1/orgs/{orgId}/ratelimit/reset`: empties counters of an org, a policy, an app, a key or a user.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tollgate_catalog::model::check_id;
use tollgate_catalog::repository::Kind;

use super::answer::{Answer, Answered};
use super::ask::{Ask, Path};
use super::keys::no_randomness;
use super::lists::within;
use super::openapi::replies;
use super::orgs;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::clock;

/// Nanoseconds in a millisecond.
const NANOS_PER_MS: u64 = 1_000_000;

/// The routes of this file.
pub(super) fn group() -> Group {
    Group {
        name: "Resets",
        about: "Counters that start anew.",
        routes: vec![
            Route::post(
                "/v1/orgs/{orgId}/ratelimit/reset",
                post,
                "resetCounters",
                "Empty an org's counters",
            )
            .says("All of them, or those of one policy, app, key or user. Limits that span orgs stay as they are. Nodes \
                of a fleet must share a database (409).")
            .by(Rule::WriteOrgPlan)
            .takes("ResetWritten")
            .writes()
            .answers(200, replies::emptied("Reset")),
        ],
    }
}

/// Empties counters. From then on the limits count elsewhere; limits that span orgs stay as they are.
pub(super) async fn post(Path(org): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_org_plan(&org)?;
    let mut members = ask.object()?;
    let mut what = Vec::new();
    for (name, value) in &members {
        let bad = |problem: &str| Problem::unprocessable(format!("`{name}` {problem}."));
        match (name.as_str(), value) {
            ("reason", Value::String(reason)) if !reason.trim().is_empty() => {}
            ("policyId" | "appId" | "keyId" | "userId", Value::String(id)) => {
                check_id(id).map_err(bad)?;
                what.push(format!("{name}={id}"));
            }
            ("reason" | "policyId" | "appId" | "keyId" | "userId", _) => return Err(bad("must be text")),
            _ => return Err(bad("is not a known field")),
        }
    }
    if !members.contains_key("reason") {
        return Err(Problem::unprocessable(
            "`reason` is missing: the audit keeps why counters were emptied.",
        ));
    }
    let callers = ["appId", "keyId", "userId"];
    if callers.iter().filter(|name| members.contains_key(**name)).count() > 1 {
        return Err(Problem::unprocessable(
            "Name one of `appId`, `keyId` and `userId`.",
        ));
    }
    if let Some(policy) = members.get("policyId").and_then(Value::as_str)
        && !ask.plane.engine.snapshot().has_policy(policy)
    {
        return Err(Problem::unprocessable(format!("There is no policy `{policy}`.")));
    }
    let has_company = ask
        .plane
        .fleet
        .as_ref()
        .is_some_and(|fleet| fleet.sharing().0 > 1);
    if has_company && !ask.plane.catalogue.repository().is_shared() {
        return Err(Problem::conflict(
            "The nodes of this fleet have a catalogue each, so that only this one would count anew, beside the others: with a \
             database that all of them share (--database) they learn of it.",
        ));
    }
    let epoch = getrandom::u64().map_err(|_| no_randomness())?;
    members.insert("epoch".to_owned(), json!(epoch));
    members.insert("at".to_owned(), json!(next_millisecond().await));
    // One entry for what is emptied, however often it is.
    let id = if what.is_empty() {
        "everything".to_owned()
    } else {
        what.join(" ")
    };
    let place = within(&org, Kind::Reset, &id);
    let emptied = |mut answer: Answer| {
        if let Some(members) = answer.body.as_object_mut() {
            members.remove("epoch");
            members.remove("at");
        }
        Answer {
            status: StatusCode::OK,
            revision: None,
            ..answer
        }
    };
    let above = [orgs::place(&org)];
    let body = Value::Object(members);
    ask.once(ask.put_if(&above, &place, body, |_| Ok(()), emptied))
        .await
}

/// Waits for the next whole millisecond, and returns it. What has changed before then was before the reset, and what
/// changes from then on is after it.
async fn next_millisecond() -> u64 {
    let next = clock::now().nanos() / NANOS_PER_MS + 1;
    while clock::now().nanos() / NANOS_PER_MS < next {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    next
}
