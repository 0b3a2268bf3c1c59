//! `POST /v1/orgs/{orgId}/ratelimit/reset`: empties counters of an org, a policy, an app, a key or a user.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use tollgate_catalog::model::{Reset, Who, check_id};
use tollgate_catalog::repository::Kind;
use tollgate_catalog::snapshot::Snapshot;

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
            .says("Those of its rates, or of one app, key or user; of its quotas only with `quotas`. With `policyId` those \
                of one policy, which may be a quota. Limits that span orgs stay as they are. `reset` lists whose \
                counters were emptied. Nodes of a fleet must share a database (409).")
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
    let wish = Wish::read(&members)?;
    if !members.contains_key("reason") {
        return Err(Problem::unprocessable(
            "`reason` is missing: the audit keeps why counters were emptied.",
        ));
    }
    let snapshot = ask.plane.engine.snapshot_full();
    if let Some(policy) = wish
        .policy
        .as_deref()
        .filter(|policy| !snapshot.has_policy(policy))
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
    let reset = wish.reset(epoch);
    let emptied = emptied(&snapshot, &org, &reset);
    members.insert("quotas".to_owned(), json!(reset.quotas));
    members.insert("epoch".to_owned(), json!(epoch));
    members.insert("at".to_owned(), json!(reset.at.nanos() / 1_000_000));
    // One entry for what is emptied, however often it is.
    let place = within(&org, Kind::Reset, &wish.id());
    let told = |mut answer: Answer| {
        if let Some(members) = answer.body.as_object_mut() {
            members.remove("epoch");
            members.remove("at");
            members.insert("reset".to_owned(), emptied.clone());
        }
        Answer {
            status: StatusCode::OK,
            revision: None,
            ..answer
        }
    };
    let above = [orgs::place(&org)];
    let body = Value::Object(members);
    ask.once(ask.put_if(&above, &place, body, |_| Ok(()), told)).await
}

/// What is to be emptied.
struct Wish {
    policy: Option<String>,
    who: Who,
    quotas: bool,
}

impl Wish {
    fn read(members: &Map<String, Value>) -> Result<Self, Problem> {
        let (mut policy, mut named, mut quotas) = (None, Vec::new(), None);
        for (name, value) in members {
            let bad = |problem: &str| Problem::unprocessable(format!("`{name}` {problem}."));
            match (name.as_str(), value) {
                ("reason", Value::String(reason)) if !reason.trim().is_empty() => {}
                ("policyId" | "appId" | "keyId" | "userId", Value::String(id)) => {
                    check_id(id).map_err(bad)?;
                    match name.as_str() {
                        "policyId" => policy = Some(id.clone()),
                        "appId" => named.push(Who::App(id.clone())),
                        "keyId" => named.push(Who::Key(id.clone())),
                        _ => named.push(Who::User(id.clone())),
                    }
                }
                ("quotas", Value::Bool(wanted)) => quotas = Some(*wanted),
                ("quotas", _) => return Err(bad("must be true or false")),
                ("reason" | "policyId" | "appId" | "keyId" | "userId", _) => {
                    return Err(bad("must be text"));
                }
                _ => return Err(bad("is not a known field")),
            }
        }
        if named.len() > 1 {
            return Err(Problem::unprocessable(
                "Name one of `appId`, `keyId` and `userId`.",
            ));
        }
        Ok(Self {
            // Whoever names a quota means it.
            quotas: quotas.unwrap_or(policy.is_some()),
            who: named.pop().unwrap_or(Who::Org),
            policy,
        })
    }

    fn reset(&self, epoch: u64) -> Reset {
        Reset {
            policy: self.policy.clone(),
            who: self.who.clone(),
            quotas: self.quotas,
            epoch,
            at: clock::now(),
        }
    }

    /// The entry's id: no two wishes have the same. In ids of callers everything is escaped that the rest is made of.
    fn id(&self) -> String {
        let escaped = |id: &str| {
            let id = id.replace('%', "%25").replace(' ', "%20");
            id.replace('=', "%3D")
        };
        let who = match &self.who {
            Who::Org => None,
            Who::App(id) => Some(format!("appId={}", escaped(id))),
            Who::Key(id) => Some(format!("keyId={}", escaped(id))),
            Who::User(id) => Some(format!("userId={}", escaped(id))),
        };
        let policy = self.policy.as_deref();
        let policy = policy.map(|policy| format!("policyId={}", escaped(policy)));
        let rates = (!self.quotas).then(|| "rates".to_owned());
        let parts: Vec<String> = [rates, who, policy].into_iter().flatten().collect();
        if parts.is_empty() {
            return "everything".to_owned();
        }
        parts.join(" ")
    }
}

/// The limits whose counters a reset empties, each once.
fn emptied(snapshot: &Snapshot, org: &str, reset: &Reset) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for limit in snapshot.emptied_by(reset, org, reset.at) {
        let item = json!({
            "policyId": limit.id,
            "scope": limit.scope_name,
            "window": limit.window.to_string(),
            "quota": limit.is_quota(),
        });
        if items.last() != Some(&item) {
            items.push(item);
        }
    }
    Value::Array(items)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn id(text: &Value) -> String {
        Wish::read(text.as_object().unwrap()).ok().unwrap().id()
    }

    #[test]
    fn no_two_wishes_share_an_id() {
        let wishes = [
            json!({}),
            json!({"quotas": true}),
            json!({"appId": "x", "policyId": "p"}),
            json!({"appId": "x policyId=p", "quotas": true}),
            json!({"appId": "x%20policyId%3Dp", "quotas": true}),
            json!({"appId": "x"}),
            json!({"appId": "x", "quotas": true}),
            json!({"keyId": "x"}),
            json!({"userId": "x"}),
            json!({"policyId": "p"}),
            json!({"policyId": "p", "quotas": false}),
            json!({"userId": "rates appId=x"}),
        ];
        let ids: BTreeSet<String> = wishes.iter().map(id).collect();
        assert_eq!(ids.len(), wishes.len(), "{ids:?}");
        // As they have always been, so that one of them goes on to be one entry.
        assert_eq!(id(&wishes[1]), "everything");
        assert_eq!(id(&wishes[2]), "appId=x policyId=p");
    }
}
