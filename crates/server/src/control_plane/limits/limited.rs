//! The answer to whoever asks too often: what the data plane would say of the same refusal.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::answer::{HeaderStyles, write_denial, write_headers};
use crate::engine::Checked;

/// A refusal, written out.
pub(in super::super) struct Limited {
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl Limited {
    pub(super) fn of(checked: &Checked<'_>, styles: HeaderStyles) -> Self {
        let (mut headers, mut body) = (Vec::new(), Vec::new());
        write_headers(checked, styles, &mut |name, value| {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.push((HeaderName::from_static(name), value));
            }
        });
        write_denial(checked, &mut body);
        Self { headers, body }
    }
}

impl IntoResponse for Limited {
    fn into_response(self) -> Response {
        let kind = [(CONTENT_TYPE, "application/problem+json")];
        let mut response = (StatusCode::TOO_MANY_REQUESTS, kind, self.body).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}
