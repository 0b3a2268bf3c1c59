//! What the routes of the control plane answer with.

use axum::http::header::{CACHE_CONTROL, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Map, Value};
use tollgate_catalog::repository::{Entry, RepositoryError};

use crate::answer::Problem;
use crate::catalogue::WriteError;

/// What a route answers with.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) revision: Option<i64>,
    pub(super) body: Value,
}

pub(super) type Answered = Result<Answer, Problem>;

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = if self.status == StatusCode::NO_CONTENT {
            self.status.into_response()
        } else {
            (self.status, Json(self.body)).into_response()
        };
        // Secrets are shown in some, and all are for their caller alone.
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
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

/// The tag of a state.
pub(super) fn etag(revision: i64) -> String {
    format!("\"{revision}\"")
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

/// Something that the policy file owns, as it would be written by API.
pub(super) fn of_file(mut written: Map<String, Value>) -> Value {
    written.insert("source".to_owned(), Value::from("file"));
    Value::Object(written)
}

/// A document as it is shown: without the hash of a secret, and with instants as they are written in requests.
pub(super) fn presentable(mut document: Value) -> Value {
    let Some(members) = document.as_object_mut() else {
        return document;
    };
    members.remove("hash");
    for name in ["createdAt", "expiresAt", "formerSecretsUntil"] {
        let at = members.get(name).and_then(Value::as_i64);
        if let Some(at) = at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok()) {
            members.insert(name.to_owned(), at.to_string().into());
        }
    }
    document
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
            WriteError::Overtaken => Self::conflict(
                "This took so long that another request with its Idempotency-Key is carried out instead.",
            ),
            // It was said when that began.
            WriteError::Away => Self::catalogue_unavailable(),
            WriteError::Disk(error) => {
                tracing::error!("the catalogue on disk can't be read: {error}");
                Self::catalogue_unavailable()
            }
            WriteError::Repository(RepositoryError::Locked) => {
                tracing::error!("a write was refused: {}", RepositoryError::Locked);
                Self::catalogue_locked()
            }
            WriteError::Repository(error) => {
                tracing::error!("the catalogue did not answer: {error}");
                Self::catalogue_unavailable()
            }
        }
    }
}
