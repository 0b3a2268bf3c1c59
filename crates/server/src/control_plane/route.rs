//! A route and what is said of it. The router and the OpenAPI document are both made of these, so that no route
//! can be in one and not in the other.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::Value;

use super::ControlPlane;
use super::openapi::replies;
use super::rule::Rule;

/// The routes of one file.
pub(super) struct Group {
    /// What they are about.
    pub(super) name: &'static str,
    /// The same in a sentence.
    pub(super) about: &'static str,
    pub(super) routes: Vec<Route>,
}

/// A route: a method, a path, who may call it, what it takes and what it answers.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) handler: MethodRouter<Arc<ControlPlane>>,
    /// Its name for programs.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) summary: &'static str,
    /// What there is to know besides.
    pub(super) description: &'static str,
    pub(super) rule: Rule,
    /// The names of the parameters its query may have, as `openapi::parameters` knows them.
    pub(super) query: Vec<&'static str>,
    /// The headers it reads.
    pub(super) headers: Vec<&'static str>,
    pub(super) body: Option<Body>,
    /// What it answers when all is well, by status.
    pub(super) replies: Vec<(u16, Value)>,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    /// The schema's name.
    pub(super) schema: &'static str,
    /// Whether there has to be one.
    pub(super) required: bool,
}

impl Route {
    /// A route that reads.
    pub(super) fn get<H, T>(path: &'static str, handler: H, id: &'static str, summary: &'static str) -> Self
    where
        H: Handler<T, Arc<ControlPlane>>,
        T: 'static,
    {
        Self::new(Method::GET, path, on(MethodFilter::GET, handler), id, summary)
    }

    /// A route that asks or makes.
    pub(super) fn post<H, T>(path: &'static str, handler: H, id: &'static str, summary: &'static str) -> Self
    where
        H: Handler<T, Arc<ControlPlane>>,
        T: 'static,
    {
        Self::new(Method::POST, path, on(MethodFilter::POST, handler), id, summary)
    }

    /// A route that replaces whole: 200, or 201 if there was nothing.
    pub(super) fn put<H, T>(path: &'static str, handler: H, id: &'static str, summary: &'static str) -> Self
    where
        H: Handler<T, Arc<ControlPlane>>,
        T: 'static,
    {
        Self::new(Method::PUT, path, on(MethodFilter::PUT, handler), id, summary)
    }

    /// A route that deletes: 204.
    pub(super) fn delete<H, T>(
        path: &'static str,
        handler: H,
        id: &'static str,
        summary: &'static str,
    ) -> Self
    where
        H: Handler<T, Arc<ControlPlane>>,
        T: 'static,
    {
        let delete = Self::new(
            Method::DELETE,
            path,
            on(MethodFilter::DELETE, handler),
            id,
            summary,
        );
        delete
            .writes()
            .answers(200, replies::dry_run())
            .answers(204, replies::gone())
    }

    fn new(
        method: Method,
        path: &'static str,
        handler: MethodRouter<Arc<ControlPlane>>,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            handler,
            id,
            summary,
            description: "",
            rule: Rule::ReadPlatform,
            query: Vec::new(),
            headers: vec!["X-Request-Id"],
            body: None,
            replies: Vec::new(),
        }
    }

    /// Says what there is to know besides.
    pub(super) fn says(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Says who may call it.
    pub(super) fn by(mut self, rule: Rule) -> Self {
        self.rule = rule;
        if rule == Rule::Anyone {
            self.headers.clear();
        }
        self
    }

    /// It must have a body.
    pub(super) fn takes(mut self, schema: &'static str) -> Self {
        self.body = Some(Body {
            schema,
            required: true,
        });
        self
    }

    /// It may have a body; none counts as an empty object.
    pub(super) fn may_take(mut self, schema: &'static str) -> Self {
        self.body = Some(Body {
            schema,
            required: false,
        });
        self
    }

    /// Its query may have a parameter.
    pub(super) fn asks(mut self, parameter: &'static str) -> Self {
        self.query.push(parameter);
        self
    }

    /// It answers with a page of a list.
    pub(super) fn lists(self, schema: &'static str) -> Self {
        self.asks("limit")
            .asks("cursor")
            .answers(200, replies::list(schema))
    }

    /// It answers with something that has an ETag.
    pub(super) fn shows(self, schema: &'static str) -> Self {
        self.answers(200, replies::shown(schema))
    }

    /// It replaces something, or makes it.
    pub(super) fn replaces(self, schema: &'static str) -> Self {
        let writes = self.writes();
        writes
            .answers(200, replies::replaced(schema))
            .answers(201, replies::made(schema))
    }

    /// It makes something.
    pub(super) fn makes(self, schema: &'static str) -> Self {
        let writes = self.writes();
        writes
            .answers(200, replies::dry_run())
            .answers(201, replies::made(schema))
    }

    /// It takes what all writes take.
    pub(super) fn writes(mut self) -> Self {
        self.headers
            .extend(["If-Match", "If-None-Match", "Idempotency-Key"]);
        self.asks("dryRun")
    }

    /// It answers with a status when all is well.
    pub(super) fn answers(mut self, status: u16, reply: Value) -> Self {
        self.replies.push((status, reply));
        self
    }

    /// Whether it changes something.
    pub(super) fn is_write(&self) -> bool {
        self.query.contains(&"dryRun")
    }
}
