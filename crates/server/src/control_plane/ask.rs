//! A request to the control plane: who asks, what for, and the way all writes go.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollgate_catalog::repository::{Author, Change, Claim, Entry, Place};

use super::ControlPlane;
use super::role::Caller;
use crate::answer::Problem;
use crate::catalogue::{Outcome, WriteError};
use crate::clock;
use crate::secret::SecretHash;

/// How often a write is tried again after another node was faster.
const TURNS: usize = 20;
/// How many items a list holds unless asked otherwise, and at most.
const PAGE: i64 = 100;
const MAX_PAGE: i64 = 1_000;

/// A request of a known caller.
pub(super) struct Ask {
    pub(super) plane: Arc<ControlPlane>,
    pub(super) caller: Caller,
    pub(super) query: HashMap<String, String>,
    headers: HeaderMap,
    pub(super) body: Bytes,
    /// The method and path, as the audit names them.
    route: String,
    request_id: String,
}

/// What a route answers with.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) revision: Option<i64>,
    pub(super) body: Value,
}

pub(super) type Answered = Result<Answer, Problem>;

/// The ids in a path. Unlike axum's own it refuses what is not UTF-8 with a problem.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0))
            .map_err(|_| Problem::bad_request("The path can't be read."))
    }
}

impl FromRequest<Arc<ControlPlane>> for Ask {
    type Rejection = Problem;

    async fn from_request(request: Request, plane: &Arc<ControlPlane>) -> Result<Self, Problem> {
        let caller = plane.admit(request.headers())?;
        // PostgreSQL has no NUL in text, so no id and no cursor has one: looking for it would be an error there.
        let target = request.uri().path_and_query();
        if target.is_some_and(|target| target.as_str().contains("%00")) {
            return Err(Problem::bad_request("The path or the query has a NUL character."));
        }
        let query = Query::<HashMap<String, String>>::try_from_uri(request.uri())
            .map_err(|_| Problem::bad_request("The query can't be read."))?
            .0;
        let (route, headers) = (
            format!("{} {}", request.method(), request.uri().path()),
            request.headers().clone(),
        );
        let given = headers.get("x-request-id").and_then(|id| id.to_str().ok());
        let request_id = match given.filter(|id| !id.is_empty() && id.len() <= 128) {
            Some(id) => id.to_owned(),
            None => format!("{:016x}", getrandom::u64().unwrap_or_default()),
        };
        let body = Bytes::from_request(request, plane)
            .await
            .map_err(|_| Problem::too_large("The body is longer than 1 MiB."))?;
        Ok(Self {
            plane: plane.clone(),
            caller,
            query,
            headers,
            body,
            route,
            request_id,
        })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = if self.status == StatusCode::NO_CONTENT {
            self.status.into_response()
        } else {
            (self.status, Json(self.body)).into_response()
        };
        if let Some(etag) = self
            .revision
            .and_then(|revision| HeaderValue::from_str(&etag(revision)).ok())
        {
            response.headers_mut().insert(ETAG, etag);
        }
        response
    }
}

impl Answer {
    /// 200 with a body.
    pub(super) fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            revision: None,
            body,
        }
    }

    /// An entry as it stands.
    pub(super) fn entry(entry: &Entry, body: Value) -> Self {
        Self {
            revision: Some(entry.revision),
            ..Self::ok(body)
        }
    }
}

fn etag(revision: i64) -> String {
    format!("\"{revision}\"")
}

impl Ask {
    /// The body, which has to be a JSON object; nothing at all counts as an empty one.
    pub(super) fn object(&self) -> Result<serde_json::Map<String, Value>, Problem> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(serde_json::Map::new());
        }
        match self.json()? {
            Value::Object(members) => Ok(members),
            _ => Err(Problem::bad_request("The body must be a JSON object.")),
        }
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Problem> {
        let body = serde_json::from_slice(&self.body)
            .map_err(|error| Problem::bad_request(format!("The body is not JSON: {error}.")))?;
        match with_nul(&body, "") {
            Some(field) => Err(Problem::unprocessable(format!(
                "`{field}` must not contain control characters."
            ))),
            None => Ok(body),
        }
    }

    /// Sets a member that the path names; a body that says otherwise is refused.
    pub(super) fn named(
        members: &mut serde_json::Map<String, Value>,
        name: &str,
        id: &str,
    ) -> Result<(), Problem> {
        match members.insert(name.to_owned(), json!(id)) {
            Some(said) if said != *id => Err(Problem::unprocessable(format!(
                "`{name}` is {said} in the body and `{id}` in the path."
            ))),
            _ => Ok(()),
        }
    }

    /// Whether only to say what would change.
    pub(super) fn dry_run(&self) -> Result<bool, Problem> {
        // A slip such as `dryrun=true` must not turn a trial into a write.
        if let Some(name) = self.query.keys().find(|name| *name != "dryRun") {
            return Err(Problem::bad_request(format!(
                "`{name}` is not a known parameter of a write."
            )));
        }
        match self.query.get("dryRun").map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::bad_request("`dryRun` can only be true or false.")),
        }
    }

    /// The page that is asked for: after which id, and how many items.
    pub(super) fn page(&self) -> Result<(&str, i64), Problem> {
        let after = self.query.get("cursor").map_or("", String::as_str);
        let limit = match self.query.get("limit") {
            None => PAGE,
            Some(limit) => limit
                .parse()
                .ok()
                .filter(|limit| (1..=MAX_PAGE).contains(limit))
                .ok_or_else(|| Problem::bad_request("`limit` must be a whole number from 1 to 1000."))?,
        };
        Ok((after, limit))
    }

    /// Who writes.
    pub(super) fn author(&self, reason: &str) -> Author {
        Author {
            actor: self.caller.actor.clone(),
            route: self.route.clone(),
            request: self.request_id.clone(),
            at_ms: now_ms(),
            reason: reason.to_owned(),
        }
    }

    /// Replaces an entry whole, or makes it: 200 or 201.
    pub(super) async fn put(&self, place: &Place, body: Value) -> Answered {
        self.put_if(place, body, |_| Ok(())).await
    }

    /// The same where what is there allows it, looked at when nobody else can change it.
    pub(super) async fn put_if(
        &self,
        place: &Place,
        body: Value,
        allow: impl Fn(Option<&Entry>) -> Result<(), Problem> + Send + Sync,
    ) -> Answered {
        let dry_run = self.dry_run()?;
        let repository = self.plane.catalogue.repository();
        for _ in 0..TURNS {
            let turn = self.plane.catalogue.turn().await?;
            let before = repository.get(place).await.map_err(WriteError::from)?;
            self.check_conditions(before.as_ref())?;
            allow(before.as_ref())?;
            let change = Change {
                place: place.clone(),
                body: Some(body.to_string()),
            };
            let outcome = turn
                .commit(&self.author(reason(&body)), &[change], dry_run)
                .await?;
            let status = match before {
                None => StatusCode::CREATED,
                Some(_) => StatusCode::OK,
            };
            match outcome {
                Outcome::Behind => {}
                Outcome::WouldBeWritten => {
                    let change = change_shown(place, before.as_ref(), Some(&body));
                    return Ok(would_change(&[change]));
                }
                Outcome::Written(revision) => {
                    return Ok(Answer {
                        status,
                        revision: Some(revision),
                        body,
                    });
                }
            }
        }
        Err(busy())
    }

    /// Deletes an entry, and with it what can't be without it: 204.
    pub(super) async fn delete(&self, place: &Place, with: &[Change]) -> Answered {
        let dry_run = self.dry_run()?;
        let repository = self.plane.catalogue.repository();
        for _ in 0..TURNS {
            let turn = self.plane.catalogue.turn().await?;
            let before = repository.get(place).await.map_err(WriteError::from)?;
            if before.is_none() && !self.plane.catalogue.file().owns(place) {
                return Err(Problem::not_found());
            }
            self.check_conditions(before.as_ref())?;
            let mut changes = with.to_vec();
            changes.push(Change {
                place: place.clone(),
                body: None,
            });
            match turn.commit(&self.author(""), &changes, dry_run).await? {
                Outcome::Behind => {}
                Outcome::WouldBeWritten => {
                    let mut gone = Vec::new();
                    for change in &changes {
                        let before = repository.get(&change.place).await.map_err(WriteError::from)?;
                        gone.push(change_shown(&change.place, before.as_ref(), None));
                    }
                    return Ok(would_change(&gone));
                }
                Outcome::Written(_) => {
                    return Ok(Answer {
                        status: StatusCode::NO_CONTENT,
                        ..Answer::ok(Value::Null)
                    });
                }
            }
        }
        Err(busy())
    }

    /// Carries a write out once for each `Idempotency-Key`: the same again gets the same answer, without its
    /// secret, which is shown only once. Whatever looks at what is there belongs in the write, or the second
    /// time would be refused for what the first has changed.
    pub(super) async fn once(&self, write: impl Future<Output = Answered>) -> Answered {
        let Some(key) = self.headers.get("idempotency-key") else {
            return write.await;
        };
        let key = key.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
        let key =
            key.ok_or_else(|| Problem::bad_request("`Idempotency-Key` must be 1 to 255 ASCII characters."))?;
        let mut whole = format!("{}\n{:?}\n", self.route, self.dry_run()?);
        whole.push_str(&String::from_utf8_lossy(&self.body));
        let fingerprint = SecretHash::of(&whole).to_string();
        let repository = self.plane.catalogue.repository();
        let scope = &self.caller.actor;
        let claim = repository.claim(scope, key, &fingerprint, now_ms()).await;
        match claim.map_err(WriteError::from)? {
            Claim::New => {}
            Claim::InFlight => {
                return Err(Problem::conflict(
                    "A request with this Idempotency-Key is being carried out.",
                ));
            }
            Claim::Other => {
                return Err(Problem::unprocessable(
                    "This Idempotency-Key was used for another request.",
                ));
            }
            Claim::Done { status, response } => return Ok(replayed(status, &response)),
        }
        let answered = write.await;
        let kept = match &answered {
            Ok(answer) => {
                let mut body = answer.body.clone();
                if let Some(members) = body.as_object_mut() {
                    members.remove("secret");
                }
                let response = json!({"body": body, "revision": answer.revision}).to_string();
                let status = i64::from(answer.status.as_u16());
                repository.finish(scope, key, status, &response).await
            }
            Err(_) => repository.release(scope, key).await,
        };
        if let Err(error) = kept {
            tracing::error!("an Idempotency-Key was not kept: {error}");
        }
        answered
    }

    /// `If-Match` and `If-None-Match` against lost updates.
    fn check_conditions(&self, before: Option<&Entry>) -> Result<(), Problem> {
        let tags = |name| {
            // What can't be read fits nothing: dropped, it would be as if no condition were given.
            let given = self.headers.get(name);
            let given = given.map(|value: &HeaderValue| value.to_str().unwrap_or_default());
            given.map(|given| given.split(',').map(str::trim).collect::<Vec<_>>())
        };
        let fits = |tags: &[&str]| {
            before.is_some_and(|entry| {
                let present = etag(entry.revision);
                tags.iter().any(|tag| *tag == "*" || *tag == present)
            })
        };
        if tags(IF_MATCH).is_some_and(|tags| !fits(&tags)) {
            return Err(Problem::precondition(
                "It was changed since, or is not there: `If-Match` does not fit.",
            ));
        }
        if tags(IF_NONE_MATCH).is_some_and(|tags| fits(&tags)) {
            return Err(Problem::precondition(
                "It is there already: `If-None-Match` does not fit.",
            ));
        }
        Ok(())
    }
}

/// A list and where it goes on.
pub(super) fn listed(items: Vec<Value>, next: Option<String>) -> Answer {
    let mut list = serde_json::Map::new();
    list.insert("items".to_owned(), Value::Array(items));
    list.insert("nextCursor".to_owned(), next.map_or(Value::Null, Value::String));
    Answer::ok(Value::Object(list))
}

/// The JSON of an entry.
pub(super) fn document(entry: &Entry) -> Value {
    serde_json::from_str(&entry.body).unwrap_or(Value::Null)
}

/// The present, in Unix milliseconds.
pub(super) fn now_ms() -> i64 {
    i64::try_from(clock::now().millis()).unwrap_or(i64::MAX)
}

fn reason(body: &Value) -> &str {
    body["reason"].as_str().unwrap_or_default()
}

fn would_change(changes: &[Value]) -> Answer {
    Answer::ok(json!({"dryRun": true, "changes": changes}))
}

fn change_shown(place: &Place, before: Option<&Entry>, after: Option<&Value>) -> Value {
    json!({
        "kind": place.kind.name(),
        "orgId": if place.org.is_empty() { Value::Null } else { json!(place.org) },
        "id": place.id,
        "before": before.map(|entry| without_hash(document(entry))),
        "after": after.cloned().map(without_hash),
    })
}

/// The first field that has a NUL character, in its value or in its name.
fn with_nul(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(|| path.to_owned()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| with_nul(item, &format!("{path}[{index}]")))
        }
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", name.escape_debug());
            if name.contains('\0') {
                return Some(path);
            }
            with_nul(member, &path)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A document without the hash of a secret.
pub(super) fn without_hash(mut document: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.remove("hash");
    }
    document
}

fn replayed(status: i64, response: &str) -> Answer {
    let kept: Value = serde_json::from_str(response).unwrap_or(Value::Null);
    let status = u16::try_from(status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok());
    Answer {
        status: status.unwrap_or(StatusCode::OK),
        revision: kept["revision"].as_i64(),
        body: kept["body"].clone(),
    }
}

fn busy() -> Problem {
    Problem::conflict("The catalogue is being changed by others all the time. Try again.")
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Problems(problems) => Self::unprocessable(format!("{problems}.")),
            WriteError::OwnedByFile(what) => Self::conflict(format!(
                "The policy file owns {what}: change it there. The API does not fork what a file says."
            )),
            WriteError::InUse(sentence) => Self::conflict(sentence),
            WriteError::Unknown(sentence) => Self::unprocessable(sentence),
            WriteError::Repository(error) => {
                tracing::error!("the catalogue did not answer: {error}");
                Self::catalogue_unavailable()
            }
        }
    }
}
