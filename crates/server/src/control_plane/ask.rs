//! A request to the control plane: who asks, and what for.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tollgate_catalog::repository::{Author, Claimed};

use super::ControlPlane;
use super::access::NotAdmitted;
use super::openapi::Shape;
use super::role::Caller;
use super::unrepeated::Unrepeated;
use crate::answer::Problem;
use crate::clock;

/// How many items a list holds unless asked otherwise, and at most.
pub(super) const PAGE: i64 = 100;
pub(super) const MAX_PAGE: i64 = 1_000;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request of a known caller.
pub(super) struct Ask {
    pub(super) plane: Arc<ControlPlane>,
    pub(super) caller: Caller,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The method and path, as the audit names them.
    pub(super) route: String,
    /// By which claim it is carried out, if once only.
    pub(super) claimed: OnceLock<Claimed>,
    request_id: String,
    /// What the route takes.
    shape: Option<Shape>,
}

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
    type Rejection = NotAdmitted;

    async fn from_request(request: Request, plane: &Arc<ControlPlane>) -> Result<Self, NotAdmitted> {
        let caller = plane.admit(&request)?;
        // PostgreSQL has no NUL in text, so no id and no cursor has one: looking for it would be an error there.
        let target = request.uri().path_and_query();
        if target.is_some_and(|target| target.as_str().contains("%00")) {
            return Err(Problem::bad_request("The path or the query has a NUL character.").into());
        }
        let shape = request.extensions().get::<Shape>().cloned();
        let query = read_query(request.uri(), shape.as_ref())?;
        let (route, headers) = (
            format!("{} {}", request.method(), request.uri().path()),
            request.headers().clone(),
        );
        let given = headers.get("x-request-id").and_then(|id| id.to_str().ok());
        let request_id = match given.filter(|id| !id.is_empty() && id.len() <= 128) {
            Some(id) => id.to_owned(),
            None => format!("{:016x}", getrandom::u64().unwrap_or_default()),
        };
        let body = timeout(BODY_TIMEOUT, Bytes::from_request(request, plane)).await;
        let body = body.map_err(|_| Problem {
            status: 408,
            error: "request_timeout",
            title: "Request timeout",
            detail: "The body took too long to arrive.".into(),
        })?;
        let body = body.map_err(|_| Problem::too_large("The body is longer than 1 MiB."))?;
        Ok(Self {
            plane: plane.clone(),
            caller,
            query,
            headers,
            body,
            route,
            claimed: OnceLock::new(),
            request_id,
            shape,
        })
    }
}

impl Ask {
    /// The body, which has to be a JSON object; where it may be left out, nothing at all counts as an empty one.
    pub(super) fn object(&self) -> Result<serde_json::Map<String, Value>, Problem> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            if self.shape.as_ref().is_some_and(Shape::needs_body) {
                return Err(Problem::bad_request("The body is missing."));
            }
            return Ok(serde_json::Map::new());
        }
        match self.json()? {
            Value::Object(members) => Ok(members),
            _ => Err(Problem::bad_request("The body must be a JSON object.")),
        }
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Problem> {
        let Unrepeated(body) = serde_json::from_slice(&self.body)
            .map_err(|error| Problem::bad_request(format!("The body is not JSON: {error}.")))?;
        if let Some(field) = with_nul(&body, "") {
            return Err(Problem::unprocessable(format!(
                "`{field}` must not contain control characters."
            )));
        }
        match self.shape.as_ref().and_then(|shape| shape.misfit(&body)) {
            Some(misfit) => Err(Problem::unprocessable(misfit)),
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
}

/// Reads a query that has only what the route knows, and nothing twice: a slip such as `dryrun=true` must not turn a
/// trial into a write.
fn read_query(uri: &Uri, shape: Option<&Shape>) -> Result<HashMap<String, String>, Problem> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| Problem::bad_request("The query can't be read."))?
        .0;
    let mut query = HashMap::new();
    for (name, value) in pairs {
        if shape.is_some_and(|shape| !shape.asks(&name)) {
            let name = name.escape_debug();
            return Err(Problem::bad_request(format!(
                "`{name}` is not a known parameter of this address."
            )));
        }
        if query.contains_key(&name) {
            let name = name.escape_debug();
            return Err(Problem::bad_request(format!("`{name}` is given twice.")));
        }
        query.insert(name, value);
    }
    Ok(query)
}

/// The present, in Unix milliseconds.
pub(super) fn now_ms() -> i64 {
    i64::try_from(clock::now().millis()).unwrap_or(i64::MAX)
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
