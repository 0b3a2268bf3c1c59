//! Problem details (RFC 9457), for refusals and for errors.

use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Mode, Retry};

use super::message::denial_message;
use super::time::retry_after_seconds;
use crate::engine::Checked;

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A short name for programs.
    pub error: &'static str,
    /// A short name for people.
    pub title: &'static str,
    /// What is wrong, in a sentence.
    pub detail: String,
}

impl Problem {
    /// The request is not one.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self {
            status: 400,
            error: "bad_request",
            title: "Bad request",
            detail: detail.into(),
        }
    }

    /// Whoever asks is not known.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self {
            status: 401,
            error: "unauthorized",
            title: "Unauthorized",
            detail: detail.into(),
        }
    }

    /// There is nothing here.
    pub fn not_found() -> Self {
        Self {
            status: 404,
            error: "not_found",
            title: "Not found",
            detail: "There is nothing at this address.".into(),
        }
    }

    /// The caller is known, but may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self {
            status: 403,
            error: "forbidden",
            title: "Forbidden",
            detail: detail.into(),
        }
    }

    /// It stands against something that is there.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self {
            status: 409,
            error: "conflict",
            title: "Conflict",
            detail: detail.into(),
        }
    }

    /// It was there, and is over.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self {
            status: 410,
            error: "gone",
            title: "Gone",
            detail: detail.into(),
        }
    }

    /// A condition of the request does not hold.
    pub fn precondition(detail: impl Into<String>) -> Self {
        Self {
            status: 412,
            error: "precondition_failed",
            title: "Precondition failed",
            detail: detail.into(),
        }
    }

    /// There is too much of it.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self {
            status: 413,
            error: "body_too_large",
            title: "Body too large",
            detail: detail.into(),
        }
    }

    /// It can be read, but makes no sense.
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self {
            status: 422,
            error: "unprocessable",
            title: "Unprocessable",
            detail: detail.into(),
        }
    }

    /// The catalogue's database does not answer; decisions go on.
    pub fn catalogue_unavailable() -> Self {
        Self {
            status: 503,
            error: "catalogue_unavailable",
            title: "Catalogue unavailable",
            detail: "The catalogue's database does not answer. Nothing was changed.".into(),
        }
    }

    /// The catalogue's database answers, but somebody else is writing to it all the time.
    pub fn catalogue_locked() -> Self {
        Self {
            detail: "Another writer holds the catalogue's database and does not let go. Nothing was changed; try again."
                .into(),
            ..Self::catalogue_unavailable()
        }
    }

    /// The caller asks too often for anything to be decided.
    pub fn too_many(detail: impl Into<String>) -> Self {
        Self {
            status: 429,
            error: "rate_limit_exceeded",
            title: "Too many requests",
            detail: detail.into(),
        }
    }

    /// Tollgate itself can't decide.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            status: 503,
            error: "limiter_unavailable",
            title: "Limiter unavailable",
            detail: detail.into(),
        }
    }
}

/// Writes an error's body.
pub fn write_problem(problem: &Problem, out: &mut Vec<u8>) {
    out.push(b'{');
    write_problem_members(problem, out);
    out.push(b'}');
}

/// Writes a refusal of a caller that asks too often for anything to be decided, with all members of a decision.
pub fn write_too_many(problem: &Problem, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"allowed\":false,\"scope\":\"org\",\"policyId\":null,\"remaining\":null,");
    out.extend_from_slice(b"\"retryAfterMs\":1000,\"delayMs\":0,\"degraded\":false,\"limits\":[],");
    write_problem_members(problem, out);
    out.push(b'}');
}

fn write_problem_members(problem: &Problem, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"type\":\"about:blank\",\"title\":");
    write_text(out, problem.title);
    out.extend_from_slice(b",\"status\":");
    out.extend_from_slice(itoa::Buffer::new().format(problem.status).as_bytes());
    out.extend_from_slice(b",\"detail\":");
    write_text(out, &problem.detail);
    out.extend_from_slice(b",\"error\":");
    write_text(out, problem.error);
    out.extend_from_slice(b",\"message\":");
    write_text(out, &problem.detail);
}

/// Writes a refusal's body as a gateway passes it on.
pub fn write_denial(checked: &Checked<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_denial_members(checked, out);
    if let Some(binding) = checked.decision.binding {
        out.extend_from_slice(b",\"scope\":");
        write_text(out, &checked.stack.limits[binding].scope_name);
    }
    out.push(b'}');
}

/// A refusal's short names, for programs and for people.
pub fn denial_error(checked: &Checked<'_>) -> (&'static str, &'static str) {
    let binding = checked.decision.binding.map(|place| checked.stack.limits[place]);
    match checked.decision.retry {
        Retry::Never => ("cost_exceeds_limit", "Cost exceeds limit"),
        Retry::After(_) if binding.is_some_and(Limit::is_quota) => ("quota_exceeded", "Quota exceeded"),
        Retry::After(_) => ("rate_limit_exceeded", "Rate limit exceeded"),
    }
}

/// Appends a refusal's members, without the braces around them and without the scope, which a decision has too.
pub fn write_denial_members(checked: &Checked<'_>, out: &mut Vec<u8>) {
    let Some(binding) = checked.decision.binding.map(|place| checked.stack.limits[place]) else {
        return;
    };
    let (error, title) = denial_error(checked);
    let message = denial_message(checked);
    out.extend_from_slice(
        b"\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":",
    );
    write_text(out, title);
    out.extend_from_slice(b",\"status\":429,\"detail\":");
    write_text(out, &message);
    out.extend_from_slice(b",\"violated-policies\":[");
    let mut first = true;
    for (place, outcome) in checked.decision.outcomes.iter().enumerate() {
        if !outcome.fits && checked.stack.levels[place].mode == Mode::Enforce {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_text(out, &checked.stack.limits[place].id);
        }
    }
    out.extend_from_slice(b"],\"error\":");
    write_text(out, error);
    out.extend_from_slice(b",\"policy\":");
    write_text(out, &binding.id);
    out.extend_from_slice(b",\"limit_type\":");
    write_text(out, binding.limit_type());
    out.extend_from_slice(b",\"message\":");
    write_text(out, &message);
    let seconds =
        retry_after_seconds(checked).map_or_else(|| "null".to_owned(), |seconds| seconds.to_string());
    for name in [&b",\"retry_after\":"[..], b",\"retry_after_seconds\":"] {
        out.extend_from_slice(name);
        out.extend_from_slice(seconds.as_bytes());
    }
}

/// Appends text as a JSON string.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Writing to memory can't fail, and text is always JSON.
    let _ = serde_json::to_writer(out, text);
}
