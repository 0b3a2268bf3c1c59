//! `/docs`: a page that shows the OpenAPI document and sends requests. All of it is in the binary, and nothing of it
//! is fetched from elsewhere.

use axum::http::HeaderMap;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

use super::openapi::{self, replies};
use super::route::{Group, Route};
use super::rule::Rule;

/// Scripts, styles and data come from this address alone, none stands in the page, and no page may hold this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The routes of this file.
pub(super) fn group() -> Group {
    let file = |path, id, summary, media_type: &'static str, text: &'static str| {
        let about = media_type.split(';').next().unwrap_or_default();
        Route::get(
            path,
            move || async move { (headers(media_type), text) },
            id,
            summary,
        )
        .by(Rule::Anyone)
        .answers(200, replies::text("The file.", about))
    };
    Group {
        name: "Documentation",
        about: "This document, and a page for people that shows it and sends requests.",
        routes: vec![
            openapi::route(),
            file(
                "/docs",
                "getDocs",
                "The page",
                HTML,
                include_str!("docs/index.html"),
            ),
            file(
                "/docs/docs.js",
                "getDocsScript",
                "Its script",
                SCRIPT,
                include_str!("docs/docs.js"),
            ),
            file(
                "/docs/operation.js",
                "getDocsOperationScript",
                "Its script for one operation",
                SCRIPT,
                include_str!("docs/operation.js"),
            ),
            file(
                "/docs/schema.js",
                "getDocsSchemaScript",
                "Its script for schemas",
                SCRIPT,
                include_str!("docs/schema.js"),
            ),
            file(
                "/docs/docs.css",
                "getDocsStyle",
                "Its style",
                STYLE,
                include_str!("docs/docs.css"),
            ),
        ],
    }
}

fn headers(media_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let said: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version may be served tomorrow.
        (CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in said {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}
