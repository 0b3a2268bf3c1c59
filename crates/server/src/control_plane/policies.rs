//! `/v1/ratelimit/policies`: the limits of tiers.

use serde_json::{Value, json};
use tollgate_catalog::model::Policy;
use tollgate_catalog::repository::{Kind, Place};

use super::answer::{Answer, Answered, document, of_file};
use super::ask::{Ask, Path};
use super::belongings::Belongings;
use super::lists::{everywhere, list};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::{WriteError, read_document};

fn place(id: &str) -> Place {
    everywhere(Kind::Policy, id)
}

/// The routes of this file.
pub(super) fn group() -> Group {
    const ALL: &str = "/v1/ratelimit/policies";
    const ONE: &str = "/v1/ratelimit/policies/{id}";
    Group {
        name: "Policies",
        about: "The limits of tiers.",
        routes: vec![
            Route::get(ALL, index, "listPolicies", "List policies")
                .by(Rule::ReadPlatform)
                .lists("Policy"),
            Route::put(ALL, put, "putPolicy", "Make or replace a policy")
                .says("A policy without an `id` gets one that follows from what it says.")
                .by(Rule::WritePlatform)
                .takes("PolicyWritten")
                .replaces("Policy"),
            Route::get(ONE, get, "getPolicy", "Show a policy")
                .by(Rule::ReadPlatform)
                .shows("Policy"),
            Route::delete(ONE, delete, "deletePolicy", "Delete a policy")
                .says("One that an override is for can't be deleted (409).")
                .by(Rule::WritePlatform),
        ],
    }
}

/// The policies, in the order of their ids.
pub(super) async fn index(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let file = ask.plane.catalogue.file();
    let own = file.set.policies.iter().filter(|_| file.given);
    let own = own.map(|policy| (policy.id.clone(), of_file(policy.written())));
    list(&ask, Kind::Policy, "", own.collect(), document).await
}

/// One policy.
pub(super) async fn get(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let file = ask.plane.catalogue.file();
    if let Some(policy) = file
        .set
        .policies
        .iter()
        .find(|policy| file.given && policy.id == id)
    {
        return Ok(Answer::ok(of_file(policy.written())));
    }
    let entry = ask.plane.catalogue.repository().get(&place(&id)).await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    Ok(ask.shows(&entry, document(&entry)))
}

/// Makes or replaces a policy; one without an id gets one that follows from what it says.
pub(super) async fn put(ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    let mut members = ask.object()?;
    let policy: Policy = read_document(&Value::Object(members.clone())).map_err(WriteError::Problems)?;
    members.insert("id".to_owned(), json!(policy.id));
    ask.once(ask.put(&place(&policy.id), Value::Object(members)))
        .await
}

/// Deletes a policy that no override is for.
pub(super) async fn delete(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    ask.once(ask.delete(&place(&id), Belongings::None)).await
}
