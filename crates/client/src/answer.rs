//! Answers of the layer itself, and the headers on those of the service.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{CheckError, Decision};

/// A 429 as Tollgate writes it.
pub(crate) fn denial<R: From<Vec<u8>>>(decision: &Decision) -> Response<R> {
    let denial = decision.denial.clone().unwrap_or_default();
    let title = match denial.error.as_str() {
        "quota_exceeded" => "Quota exceeded",
        "cost_exceeds_limit" => "Cost exceeds limit",
        _ => "Rate limit exceeded",
    };
    let mut response = problem(
        StatusCode::TOO_MANY_REQUESTS,
        &json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": title,
            "status": 429,
            "detail": denial.message,
            "violated-policies": denial.violated_policies,
            "error": denial.error,
            "scope": decision.scope,
            "policy": decision.policy_id,
            "limit_type": denial.limit_type,
            "message": denial.message,
            "retry_after": denial.retry_after_seconds,
            "retry_after_seconds": denial.retry_after_seconds,
        }),
    );
    put_headers(decision, response.headers_mut());
    if let Some(seconds) = denial.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Without a decision: whose fault it is, and what is wrong.
pub(crate) fn undecided<R: From<Vec<u8>>>(error: &CheckError) -> Response<R> {
    let (status, name, title, detail) = match error {
        CheckError::Invalid(why) => (
            StatusCode::BAD_REQUEST,
            "bad_request",
            "Bad request",
            why.as_str(),
        ),
        CheckError::UnknownKey => (
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Unauthorized",
            "The API key is unknown or revoked.",
        ),
        CheckError::QueueFull | CheckError::Late | CheckError::Unavailable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "limiter_unavailable",
            "Limiter unavailable",
            "No decision on this request can be made now.",
        ),
    };
    let body = json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
        "error": name,
        "message": detail,
    });
    let mut response = problem(status, &body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, 1.into());
    }
    response
}

/// Puts what a client should be told into a response. What the service itself has said of its limits makes way.
pub(crate) fn put_headers(decision: &Decision, headers: &mut HeaderMap) {
    let told = decision.headers.iter().filter_map(|header| {
        let name: HeaderName = header.name.parse().ok()?;
        let value: HeaderValue = header.value.parse().ok()?;
        Some((name, value))
    });
    let told: Vec<_> = told.collect();
    for (name, _) in &told {
        headers.remove(name);
    }
    for (name, value) in told {
        headers.append(name, value);
    }
}

fn problem<R: From<Vec<u8>>>(status: StatusCode, body: &Value) -> Response<R> {
    let mut response = Response::new(R::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
