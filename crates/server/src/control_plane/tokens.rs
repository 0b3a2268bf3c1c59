//! `/v1/tokens`: who may call the control plane.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_catalog::model::check_id;
use tollgate_catalog::repository::{Entry, Kind};

use super::answer::{Answer, Answered, document, presentable};
use super::ask::{Ask, Path, now_ms};
use super::belongings::Belongings;
use super::keys::no_randomness;
use super::lists::{everywhere, list, list_tokens};
use super::role::Role;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::WriteError;
use crate::secret::{Secret, SecretHash, SecretKind, shown_prefix};

/// The routes of this file.
pub(super) fn group() -> Group {
    const ALL: &str = "/v1/tokens";
    const ONE: &str = "/v1/tokens/{id}";
    Group {
        name: "Tokens",
        about: "Who may call the control plane.",
        routes: vec![
            Route::get(ALL, index, "listTokens", "List tokens")
                .says("A tenant sees those of its own org.")
                .by(Rule::ReadOrg)
                .lists("Token"),
            Route::post(ALL, post, "postToken", "Make a token and show its secret, once")
                .says(
                    "Nobody makes a token that may do more than their own, or for longer: one that is made with a token \
                     that ends, or with a JWT, ends with it unless `expiresAt` is sooner. A later one: 422.",
                )
                .by(Rule::MakeTokens)
                .takes("TokenWritten")
                .makes("TokenMade"),
            Route::get(ONE, get, "getToken", "Show a token, without its secret")
                .by(Rule::ReadOrg)
                .shows("Token"),
            Route::delete(ONE, delete, "deleteToken", "Revoke a token")
                .says("With it go the tokens that it made, those that these made, and so on, in one step.")
                .by(Rule::MakeTokens),
        ],
    }
}

/// The tokens that the caller may see.
pub(super) async fn index(ask: Ask) -> Answered {
    match ask.caller.org.as_deref().filter(|_| ask.caller.role.within_org()) {
        Some(own) => list_tokens(&ask, own, shown).await,
        None => {
            ask.caller.read_platform()?;
            list(&ask, Kind::Token, "", BTreeMap::new(), shown).await
        }
    }
}

/// One token.
pub(super) async fn get(Path(id): Path<String>, ask: Ask) -> Answered {
    let entry = find(&ask, &id).await?;
    Ok(ask.shows(&entry, shown(&entry)))
}

/// Makes a token and shows its secret once.
pub(super) async fn post(ask: Ask) -> Answered {
    let (mut role, mut org, mut name, mut expires_ms) = (None, None, None, None);
    for (member, value) in ask.object()? {
        let bad = |what: &str| Problem::unprocessable(format!("`{member}` {what}."));
        match (member.as_str(), &value) {
            ("role", Value::String(text)) => {
                role = Some(text.parse::<Role>().map_err(|error| bad(&error.to_string()))?);
            }
            ("orgId", Value::String(id)) => {
                check_id(id).map_err(bad)?;
                org = Some(id.clone());
            }
            ("name", Value::String(text)) => name = Some(text.clone()),
            ("expiresAt", Value::String(text)) => {
                let at: jiff::Timestamp = text
                    .parse()
                    .map_err(|_| bad("must be an instant such as 2024-07-15T00:00:00Z"))?;
                expires_ms = Some(at.as_millisecond());
            }
            ("orgId" | "name" | "expiresAt", Value::Null) => {}
            ("role" | "orgId" | "name" | "expiresAt", _) => return Err(bad("must be text")),
            _ => return Err(bad("is not a known field")),
        }
    }
    let role = role.ok_or_else(|| Problem::unprocessable("`role` is missing."))?;
    if role.within_org() != org.is_some() {
        return Err(Problem::unprocessable(
            "`orgId` belongs to the roles tenant-admin and tenant-viewer, and only to those.",
        ));
    }
    if !ask.caller.may_make_token(role, org.as_deref()) {
        return Err(Problem::forbidden("Your role does not allow this."));
    }
    let expires_ms = within_own_time(&ask, expires_ms)?;
    let secret = Secret::make(SecretKind::Token).map_err(|_| no_randomness())?;
    let id = format!("{:016x}", getrandom::u64().map_err(|_| no_randomness())?);
    let body = json!({
        "role": role.name(),
        "orgId": org,
        "name": name,
        "prefix": shown_prefix(secret.expose()),
        "createdAt": now_ms(),
        "createdBy": ask.caller.actor,
        "expiresAt": expires_ms,
        "hash": SecretHash::of(secret.expose()).to_string(),
    });
    ask.once(async {
        let above: Vec<_> = org.iter().map(|org| super::orgs::place(org)).collect();
        let with_secret = |mut answer: Answer| {
            answer.body = presentable(answer.body);
            answer.body["id"] = json!(id);
            answer.body["secret"] = json!(secret.expose());
            answer
        };
        let place = everywhere(Kind::Token, &id);
        let answer = ask.put_if(&above, &place, body, |_| Ok(()), with_secret).await;
        answer.map_err(|problem| match problem.status {
            404 => Problem::unprocessable("`orgId`: there is no such org."),
            _ => problem,
        })
    })
    .await
}

/// Revokes a token.
pub(super) async fn delete(Path(id): Path<String>, ask: Ask) -> Answered {
    ask.once(async {
        let entry = find(&ask, &id).await?;
        let token = document(&entry);
        let role = token["role"].as_str().and_then(|role| role.parse().ok());
        let may = role.is_some_and(|role| ask.caller.may_make_token(role, token["orgId"].as_str()));
        if !may {
            return Err(Problem::forbidden("Your role does not allow this."));
        }
        ask.delete(&entry.place, Belongings::OfToken(&id)).await
    })
    .await
}

/// When a token ends that this caller makes: no later than the caller's own.
fn within_own_time(ask: &Ask, wish: Option<i64>) -> Result<Option<i64>, Problem> {
    let Some(own) = ask.caller.until_ms else {
        return Ok(wish);
    };
    match wish {
        Some(wish) if wish > own => {
            let own = jiff::Timestamp::from_millisecond(own).map(|at| at.to_string());
            Err(Problem::unprocessable(format!(
                "`expiresAt` is later than the end of your own token, {}: nobody makes a token that outlives theirs.",
                own.unwrap_or_default()
            )))
        }
        Some(wish) => Ok(Some(wish)),
        // Further off than an instant can be written is no end.
        None => Ok(jiff::Timestamp::from_millisecond(own).ok().map(|_| own)),
    }
}

async fn find(ask: &Ask, id: &str) -> Result<Entry, Problem> {
    let entry = ask
        .plane
        .catalogue
        .repository()
        .get(&everywhere(Kind::Token, id))
        .await;
    let entry = entry.map_err(WriteError::from)?.filter(|entry| sees(ask, entry));
    entry.ok_or_else(Problem::not_found)
}

/// A tenant sees the tokens of its own org.
fn sees(ask: &Ask, entry: &Entry) -> bool {
    let org = document(entry)["orgId"].as_str().map(str::to_owned);
    match org {
        Some(org) => ask.caller.may_read_org(&org),
        None => ask.caller.may_read_platform(),
    }
}

fn shown(entry: &Entry) -> Value {
    let mut shown = presentable(document(entry));
    shown["id"] = json!(entry.place.id);
    shown
}
