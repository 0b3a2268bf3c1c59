//! What a route takes, for whoever reads a request: the names its query may have, and the types of its body.
//!
//! The readers of bodies also read policy files, in which an id may look like a number. In JSON the two differ, and
//! a body that mixes them up is refused here, by the schema that the document shows. So is a text that is longer than
//! the schema lets it be: it would be kept twice in the audit, for every change.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::route::Route;
use super::{query_name, schemas};

/// What a route takes.
#[derive(Debug, Clone)]
pub(in super::super) struct Shape(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    query: Vec<&'static str>,
    body: Option<Value>,
    body_required: bool,
    schemas: Arc<Map<String, Value>>,
}

impl Shape {
    /// What some routes take, in their order.
    pub(in super::super) fn all<'r>(
        routes: impl IntoIterator<Item = &'r Route>,
    ) -> impl Iterator<Item = Self> {
        let schemas = Arc::new(schemas::components());
        routes.into_iter().map(move |route| {
            Self(Arc::new(Parts {
                query: route.query.iter().map(|name| query_name(name)).collect(),
                body: route.body.map(|body| schemas::of(body.schema)),
                body_required: route.body.is_some_and(|body| body.required),
                schemas: schemas.clone(),
            }))
        })
    }

    /// Whether the query may have a parameter of this name.
    pub(in super::super) fn asks(&self, name: &str) -> bool {
        self.0.query.contains(&name)
    }

    /// Whether there has to be a body.
    pub(in super::super) fn needs_body(&self) -> bool {
        self.0.body_required
    }

    /// What in a body is a number where there should be text, or too long, and the like, in words.
    pub(in super::super) fn misfit(&self, body: &Value) -> Option<String> {
        let misfit = self.0.misfit(self.0.body.as_ref()?, body, String::new())?;
        let path = misfit.path;
        match misfit.wanted {
            Wanted::Type("string") => Some(format!("`{path}` must be text, not {}.", misfit.value)),
            Wanted::Type("boolean") => Some(format!("`{path}` must be true or false.")),
            // The readers say more about these.
            Wanted::Type(_) => None,
            Wanted::Length(most) => Some(format!("`{path}` must not be longer than {most} characters.")),
        }
    }
}

/// A value of another type than it should be, or a text that is too long.
struct Misfit {
    path: String,
    wanted: Wanted,
    value: Value,
}

/// What a value should be.
enum Wanted {
    Type(&'static str),
    /// No longer than so many characters.
    Length(u64),
}

impl Parts {
    fn misfit(&self, schema: &Value, value: &Value, path: String) -> Option<Misfit> {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            return self.misfit(self.schemas.get(name)?, value, path);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let mut first = None;
            for choice in choices {
                let misfit = self.misfit(choice, value, path.clone())?;
                first.get_or_insert(misfit);
            }
            return first;
        }
        match value {
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                let dot = if path.is_empty() { "" } else { "." };
                let schema = schema["properties"]
                    .get(name)
                    .unwrap_or(&schema["additionalProperties"]);
                self.misfit(schema, member, format!("{path}{dot}{}", name.escape_debug()))
            }),
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items
                    .find_map(|(index, item)| self.misfit(&schema["items"], item, format!("{path}[{index}]")))
            }
            Value::String(text) if too_long(schema, text) => Some(Misfit {
                path,
                wanted: Wanted::Length(schema["maxLength"].as_u64()?),
                value: Value::Null,
            }),
            single => wanted(&schema["type"], single).map(|wanted| Misfit {
                path,
                wanted: Wanted::Type(wanted),
                value: single.clone(),
            }),
        }
    }
}

/// True if a text has more characters than it may have.
fn too_long(schema: &Value, text: &str) -> bool {
    let most = schema["maxLength"].as_u64();
    let most = most.and_then(|most| usize::try_from(most).ok());
    // Counted no further than it takes to know.
    most.is_some_and(|most| text.chars().nth(most).is_some())
}

/// What a single value should be instead.
fn wanted(types: &Value, value: &Value) -> Option<&'static str> {
    let allowed = |name: &str| match types {
        Value::String(one) => one == name,
        Value::Array(some) => some.iter().any(|one| one == name),
        _ => true,
    };
    let fits = match value {
        Value::Null => allowed("null"),
        Value::Bool(_) => allowed("boolean"),
        Value::Number(_) => allowed("integer"),
        _ => allowed("string"),
    };
    let names = ["string", "boolean", "integer", "object", "array", "null"];
    let first = names.into_iter().find(|name| allowed(name));
    // Null is absent almost everywhere; where it is not, the readers say what is missing.
    first.filter(|_| !fits && !value.is_null())
}
