//! The OpenAPI document of the control plane, made of the same routes as the router.

mod parameters;
pub(super) mod replies;
mod schemas;
mod shape;

use axum::http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::route::{Group, Route};
use super::rule::Rule;

pub(super) use parameters::query_name;
pub(super) use schemas::of;
pub(super) use shape::Shape;

const ABOUT: &str = "Tiers, orgs, apps, keys, policies and overrides that change at run time.\n\n\
    `x-tollgate-roles` of an operation names each role that may call it, and where: `everywhere`, or only for its \
    `own-org`. An org that is not a tenant's own is to them as one that is not there. A role that is not named is \
    refused. Parameters of a query that are not known, or are given twice, are refused.";

/// The route at which the document is served.
pub(super) fn route() -> Route {
    let schema = json!({"type": "object"});
    Route::get("/openapi.json", serve, "getOpenApi", "This document")
        .by(Rule::Anyone)
        .answers(200, replies::plain("OpenAPI 3.1.", "application/json", &schema))
}

async fn serve(
    axum::Extension(Served(document)): axum::Extension<Served>,
) -> impl axum::response::IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document)
}

/// The document as it is sent.
#[derive(Clone)]
pub(super) struct Served(bytes::Bytes);

impl Served {
    /// The document of some routes.
    pub(super) fn new(groups: &[Group]) -> Self {
        Self(document(groups).to_string().into())
    }
}

/// The document.
pub(super) fn document(groups: &[Group]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for (group, route) in groups
        .iter()
        .flat_map(|group| group.routes.iter().map(move |route| (group, route)))
    {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(group, route);
    }
    let problems = replies::problem_components().into_iter();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate control plane",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The admin address."}],
        "security": [{"bearer": []}],
        "tags": groups.iter().map(|group| json!({"name": group.name, "description": group.about})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "The admin token, or one made at `/v1/tokens`."},
            },
            "parameters": parameters::components(),
            "headers": {
                "ETag": {"description": "The state, for `If-Match`.", "schema": {"type": "string", "pattern": "^\"[0-9]+\"$"}},
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
                "WWW-Authenticate": {"description": "What is asked for.", "schema": {"type": "string"}},
            },
            "responses": problems.map(|(status, reply)| (status.to_string(), reply)).collect::<Map<_, _>>(),
            "schemas": schemas::components(),
        },
    })
}

fn operation(group: &Group, route: &Route) -> Value {
    let mut parameters = parameters::of_path(route.path);
    let others = route.query.iter().chain(&route.headers);
    parameters.extend(others.map(|name| parameters::reference(name)));
    let mut responses: Map<String, Value> = replies::problems(route)
        .into_iter()
        .map(|status| {
            (
                status.to_string(),
                json!({"$ref": format!("#/components/responses/{status}")}),
            )
        })
        .collect();
    responses.extend(
        route
            .replies
            .iter()
            .map(|(status, reply)| (status.to_string(), reply.clone())),
    );
    let mut operation = json!({
        "operationId": route.id,
        "tags": [group.name],
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
        "x-tollgate-roles": route.rule.roles(),
    });
    if !route.description.is_empty() {
        operation["description"] = json!(route.description);
    }
    if route.rule == Rule::Anyone {
        operation["security"] = json!([]);
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({
            "required": body.required,
            "content": {"application/json": {"schema": schemas::of(body.schema)}},
        });
    }
    operation
}
