//! `/v1/ratelimit/endpoint-classes`: routes that are counted together, an ordered list.

use serde_json::{Value, json};
use tollgate_catalog::model::EndpointClass;
use tollgate_catalog::repository::{Kind, Place};

use super::answer::{Answer, Answered, document};
use super::ask::Ask;
use super::lists::everywhere;
use super::route::{Group, Route};
use super::rule::Rule;
use crate::catalogue::{WriteError, read_list};

fn place() -> Place {
    everywhere(Kind::EndpointClasses, "all")
}

/// The routes of this file.
pub(super) fn group() -> Group {
    const PATH: &str = "/v1/ratelimit/endpoint-classes";
    Group {
        name: "Endpoint classes",
        about: "Routes that are counted together, as an ordered list: the first match wins.",
        routes: vec![
            Route::get(PATH, get, "getEndpointClasses", "Show the list")
                .by(Rule::ReadPlatform)
                .shows("EndpointClasses"),
            Route::put(PATH, put, "putEndpointClasses", "Replace the list")
                .by(Rule::WritePlatform)
                .takes("EndpointClassesWritten")
                .replaces("EndpointClasses"),
        ],
    }
}

/// The list.
pub(super) async fn get(ask: Ask) -> Answered {
    ask.caller.read_platform()?;
    let file = ask.plane.catalogue.file();
    if file.owns(&place()) {
        let classes = file.set.endpoint_classes.iter();
        let classes = classes.map(
            |class| json!({"pattern": class.pattern.to_string(), "class": class.class, "source": "file"}),
        );
        return Ok(Answer::ok(classes.collect()));
    }
    let entry = ask.plane.catalogue.repository().get(&place()).await;
    Ok(match entry.map_err(WriteError::from)? {
        Some(entry) => ask.shows(&entry, document(&entry)),
        None => Answer::ok(Value::Array(Vec::new())),
    })
}

/// Replaces the list.
pub(super) async fn put(ask: Ask) -> Answered {
    ask.caller.write_platform()?;
    let body = ask.json()?;
    read_list::<EndpointClass>(&body).map_err(WriteError::Problems)?;
    ask.once(ask.put(&place(), body)).await
}
