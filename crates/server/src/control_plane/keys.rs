//! `/v1/orgs/{orgId}/apps/{appId}/keys`: API keys. A secret is shown when it is made, and never again.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tollgate_catalog::model::check_id;
use tollgate_catalog::repository::{Entry, Kind, Place};

use super::answer::{Answer, Answered, presentable};
use super::ask::{Ask, Path, now_ms};
use super::belongings::Belongings;
use super::lists::{list_some, within};
use super::route::{Group, Route};
use super::rule::Rule;
use crate::answer::Problem;
use crate::catalogue::{FormerSecret, KeyDocument, WriteError};
use crate::secret::{Secret, SecretHash, SecretKind, shown_prefix};

/// How long a rotated key goes on to work unless told otherwise, and at most.
const OVERLAP_MS: i64 = 24 * 3_600_000;
pub(super) const MAX_OVERLAP_MS: i64 = 30 * OVERLAP_MS;

/// How many secrets before its present one a key may have that still work.
const MAX_FORMERS: usize = 4;

/// The routes of this file.
pub(super) fn group() -> Group {
    const ALL: &str = "/v1/orgs/{orgId}/apps/{appId}/keys";
    const ONE: &str = "/v1/orgs/{orgId}/apps/{appId}/keys/{keyId}";
    Group {
        name: "Keys",
        about: "API keys. A secret is shown when it is made, and never again.",
        routes: vec![
            Route::get(ALL, index, "listKeys", "List an app's keys")
                .by(Rule::ReadOrg)
                .lists("Key"),
            Route::post(ALL, post, "postKey", "Make a key and show its secret, once")
                .by(Rule::WriteOrgThings)
                .may_take("KeyWritten")
                .makes("KeyMade"),
            Route::get(ONE, get, "getKey", "Show a key, without its secret")
                .by(Rule::ReadOrg)
                .shows("Key"),
            Route::delete(ONE, delete, "deleteKey", "Revoke a key").by(Rule::WriteOrgThings),
            Route::post(
                "/v1/orgs/{orgId}/apps/{appId}/keys/{keyId}/rotate",
                rotate,
                "rotateKey",
                "Make a new secret for a key",
            )
            .says(
                "The old secret goes on to work for a while, as the same key, and so do those before it until their \
                 promised time: at most four (409). With an `overlapMs` of 0 all of them end at once.",
            )
            .by(Rule::WriteOrgThings)
            .may_take("Rotation")
            .makes("KeyMade"),
        ],
    }
}

/// An app's keys, by the ids they have.
pub(super) async fn index(Path((org, app)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    app_known(&ask, &org, &app).await?;
    list_some(&ask, Kind::Key, &org, |entry| {
        key_of(entry, &app).map(|key| shown(entry, &key))
    })
    .await
}

/// One key.
pub(super) async fn get(Path((org, app, id)): Path<(String, String, String)>, ask: Ask) -> Answered {
    ask.caller.read_org(&org)?;
    let (entry, key) = find(&ask, &org, &app, &id).await?;
    Ok(ask.shows(&entry, shown(&entry, &key)))
}

/// Makes a key and shows its secret once.
pub(super) async fn post(Path((org, app)): Path<(String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_things(&org)?;
    let wish = Wish::read(&ask)?;
    let id = match wish.id {
        Some(id) => id,
        None => format!("{:08x}", getrandom::u32().map_err(|_| no_randomness())?),
    };
    ask.once(async {
        let place = within(&org, Kind::Key, &id);
        make(&ask, place, app, wish.test, wish.expires_ms, None).await
    })
    .await
}

/// Makes a new secret for a key. The old one goes on to work for a while, as the same key.
pub(super) async fn rotate(Path((org, app, id)): Path<(String, String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_things(&org)?;
    let members = ask.object()?;
    let overlap = match members.get("overlapMs") {
        None => OVERLAP_MS,
        Some(overlap) => overlap
            .as_i64()
            .filter(|overlap| (0..=MAX_OVERLAP_MS).contains(overlap))
            .ok_or_else(|| Problem::unprocessable("`overlapMs` must be a whole number up to 30 days."))?,
    };
    if let Some(name) = members.keys().find(|name| *name != "overlapMs") {
        return Err(Problem::unprocessable(format!("`{name}` is not a known field.")));
    }
    ask.once(async {
        let (entry, old) = find(&ask, &org, &app, &id).await?;
        let former = Former {
            revision: entry.revision,
            secrets: formers(&old, overlap, now_ms())?,
        };
        make(&ask, entry.place, app, old.test, old.expires_ms, Some(former)).await
    })
    .await
}

/// Revokes a key.
pub(super) async fn delete(Path((org, app, id)): Path<(String, String, String)>, ask: Ask) -> Answered {
    ask.caller.write_org_things(&org)?;
    ask.once(async {
        let (entry, _) = find(&ask, &org, &app, &id).await?;
        ask.delete(&entry.place, Belongings::None).await
    })
    .await
}

/// The secrets that still work once a key is rotated: the one it has, and those before it.
fn formers(old: &KeyDocument, overlap: i64, now: i64) -> Result<Vec<FormerSecret>, Problem> {
    if overlap == 0 {
        return Ok(Vec::new());
    }
    let ends = now + overlap;
    let last = FormerSecret {
        hash: old.hash,
        until_ms: Some(old.expires_ms.map_or(ends, |expires| expires.min(ends))),
    };
    let works = |former: &&FormerSecret| former.until_ms.is_none_or(|until| now < until);
    let earlier = old.formers.iter().filter(works).copied();
    let all: Vec<FormerSecret> = std::iter::once(last).chain(earlier).collect();
    if all.len() > MAX_FORMERS {
        return Err(Problem::conflict(format!(
            "The key has {MAX_FORMERS} former secrets that still work. Wait until one has ended, or end them all with an \
             `overlapMs` of 0."
        )));
    }
    Ok(all)
}

/// What a key was before it was rotated.
struct Former {
    /// The revision at which it was.
    revision: i64,
    /// Its secrets that still work.
    secrets: Vec<FormerSecret>,
}

struct Wish {
    id: Option<String>,
    test: bool,
    expires_ms: Option<i64>,
}

impl Wish {
    fn read(ask: &Ask) -> Result<Self, Problem> {
        let mut wish = Self {
            id: None,
            test: false,
            expires_ms: None,
        };
        for (name, value) in ask.object()? {
            let bad = |what: &str| Problem::unprocessable(format!("`{name}` {what}."));
            match (name.as_str(), &value) {
                ("keyId", Value::String(id)) => {
                    check_id(id).map_err(bad)?;
                    wish.id = Some(id.clone());
                }
                ("environment", Value::String(text)) if text == "live" => wish.test = false,
                ("environment", Value::String(text)) if text == "test" => wish.test = true,
                ("environment", _) => return Err(bad("must be live or test")),
                ("expiresAt", Value::String(text)) => {
                    let at: jiff::Timestamp = text
                        .parse()
                        .map_err(|_| bad("must be an instant such as 2024-07-15T00:00:00Z"))?;
                    wish.expires_ms = Some(at.as_millisecond());
                }
                ("keyId" | "expiresAt", Value::Null) => {}
                ("keyId" | "expiresAt", _) => return Err(bad("must be text")),
                _ => return Err(bad("is not a known field")),
            }
        }
        Ok(wish)
    }
}

/// Makes a secret: for a new key, or for one that had another.
async fn make(
    ask: &Ask,
    place: Place,
    app: String,
    test: bool,
    expires_ms: Option<i64>,
    former: Option<Former>,
) -> Answered {
    let kind = if test {
        SecretKind::TestKey
    } else {
        SecretKind::LiveKey
    };
    let secret = Secret::make(kind).map_err(|_| no_randomness())?;
    let key = KeyDocument {
        app,
        test,
        prefix: shown_prefix(secret.expose()),
        created_ms: now_ms(),
        expires_ms,
        hash: SecretHash::of(secret.expose()),
        formers: former
            .as_ref()
            .map_or_else(Vec::new, |former| former.secrets.clone()),
    };
    // Two that make or rotate the same key at once must not both be told a secret, nor may a key come back that
    // was revoked meanwhile.
    let allow = |present: Option<&Entry>| match (present, &former) {
        (Some(_), None) => Err(Problem::conflict(format!(
            "The org has a key `{}` already.",
            place.id
        ))),
        (None, Some(_)) => Err(Problem::not_found()),
        (Some(entry), Some(former)) if entry.revision != former.revision => Err(Problem::conflict(
            "The key is being changed by another. Try again.",
        )),
        _ => Ok(()),
    };
    let above = [
        super::orgs::place(&place.org),
        within(&place.org, Kind::App, &key.app),
    ];
    let with_secret = |answer: Answer| {
        let mut body = presentable(key.shown());
        body["keyId"] = json!(place.id);
        body["secret"] = json!(secret.expose());
        Answer {
            status: StatusCode::CREATED,
            body,
            ..answer
        }
    };
    ask.put_if(&above, &place, key.to_json(), allow, with_secret)
        .await
}

async fn app_known(ask: &Ask, org: &str, app: &str) -> Result<(), Problem> {
    let place = within(org, Kind::App, app);
    let entry = ask.plane.catalogue.repository().get(&place).await;
    entry
        .map_err(WriteError::from)?
        .map(drop)
        .ok_or_else(Problem::not_found)
}

async fn find(ask: &Ask, org: &str, app: &str, id: &str) -> Result<(Entry, KeyDocument), Problem> {
    let entry = ask
        .plane
        .catalogue
        .repository()
        .get(&within(org, Kind::Key, id))
        .await;
    let entry = entry.map_err(WriteError::from)?.ok_or_else(Problem::not_found)?;
    let key = key_of(&entry, app).ok_or_else(Problem::not_found)?;
    Ok((entry, key))
}

fn key_of(entry: &Entry, app: &str) -> Option<KeyDocument> {
    KeyDocument::read(&entry.body).filter(|key| key.app == app)
}

fn shown(entry: &Entry, key: &KeyDocument) -> Value {
    let mut shown = presentable(key.shown());
    shown["keyId"] = json!(entry.place.id);
    shown
}

pub(super) fn no_randomness() -> Problem {
    Problem::unavailable("The operating system gives no randomness for a secret.")
}
