//! `Idempotency-Key`: a write that is sent again is carried out once.

use axum::http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tollgate_catalog::pinned;
use tollgate_catalog::repository::Claim;

use super::answer::{Answer, Answered};
use super::ask::{Ask, now_ms};
use crate::answer::Problem;
use crate::catalogue::WriteError;
use crate::secret::SecretHash;

impl Ask {
    /// Carries a write out once for each `Idempotency-Key`: the same again gets the same answer, without its
    /// secret, which is shown only once. The answer is kept in the transaction that writes, so that of two that try
    /// one does it, and no end of this server comes in between. Whatever looks at what is there belongs in the write, or the second
    /// time would be refused for what the first has changed.
    pub(super) async fn once(&self, write: impl Future<Output = Answered>) -> Answered {
        let Some(key) = self.headers.get("idempotency-key") else {
            return write.await;
        };
        let key = good_key(key)?;
        let query: std::collections::BTreeMap<_, _> = self.query.iter().collect();
        let mut whole = format!("{}\n", self.route);
        pinned::texts(
            query
                .into_iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
            &mut whole,
        );
        whole.push('\n');
        whole.push_str(&String::from_utf8_lossy(&self.body));
        let fingerprint = SecretHash::of(&whole).to_string();
        let repository = self.plane.catalogue.repository();
        let scope = &self.caller.actor;
        let claim = repository.claim(scope, key, &fingerprint, now_ms()).await;
        let claimed = match claim.map_err(WriteError::from)? {
            Claim::New(claimed) => self.claimed.get_or_init(|| claimed),
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
        };
        let answered = write.await;
        // What was written has its answer by now; this is for what was only tried, and for what failed.
        let kept = match &answered {
            Ok(answer) => {
                let (status, response) = kept(answer);
                repository.finish(claimed, status, &response).await
            }
            Err(_) => repository.release(claimed).await,
        };
        if let Err(error) = kept {
            tracing::error!("an Idempotency-Key was not kept: {error}");
        }
        answered
    }
}

/// Reads a key. Unlike one of the data plane's it may have spaces.
fn good_key(key: &HeaderValue) -> Result<&str, Problem> {
    key.to_str()
        .ok()
        .filter(|key| (1..=255).contains(&key.len()) && !key.contains('\t'))
        .ok_or_else(|| Problem::bad_request("`Idempotency-Key` must be 1 to 255 printable ASCII characters."))
}

/// An answer as it is kept: its status, and the rest without a secret.
pub(super) fn kept(answer: &Answer) -> (i64, String) {
    let mut body = answer.body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("secret");
    }
    let response = json!({"body": body, "revision": answer.revision}).to_string();
    (i64::from(answer.status.as_u16()), response)
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
