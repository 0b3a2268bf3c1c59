//! Building blocks of JSON schemas.

use serde_json::{Map, Value, json};

/// A reference to a schema by its name.
pub(in super::super::super) fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// An object's schema in the making.
pub(super) struct Object {
    about: &'static str,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    closed: bool,
    example: Value,
}

impl Object {
    /// What a client sends: a field that is not known is an error.
    pub(super) fn sent(about: &'static str) -> Self {
        Self {
            about,
            properties: Map::new(),
            required: Vec::new(),
            closed: true,
            example: Value::Null,
        }
    }

    /// What the server answers: it may have more fields some day.
    pub(super) fn answered(about: &'static str) -> Self {
        Self {
            closed: false,
            ..Self::sent(about)
        }
    }

    /// A field that has to be there.
    pub(super) fn needs(self, name: &'static str, schema: Value, about: &str) -> Self {
        let mut this = self.may(name, schema, about);
        this.required.push(name);
        this
    }

    /// A field that is always there and may be null.
    pub(super) fn shows(self, name: &'static str, schema: Value, about: &str) -> Self {
        self.needs(name, or_null(schema), about)
    }

    /// A field that may be left out, or be null, which is the same.
    pub(super) fn may_null(self, name: &'static str, schema: Value, about: &str) -> Self {
        self.may(name, or_null(schema), about)
    }

    /// A field that may be left out.
    pub(super) fn may(mut self, name: &'static str, mut schema: Value, about: &str) -> Self {
        if !about.is_empty() {
            schema["description"] = json!(about);
        }
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Changes all fields at once, such as by what others have in common.
    pub(super) fn with(self, fields: impl FnOnce(Self) -> Self) -> Self {
        fields(self)
    }

    /// What one may look like.
    pub(super) fn example(mut self, example: Value) -> Self {
        self.example = example;
        self
    }

    /// The schema.
    pub(super) fn schema(self) -> Value {
        let mut schema = json!({
            "type": "object",
            "description": self.about,
            "properties": self.properties,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if self.closed {
            schema["additionalProperties"] = json!(false);
        }
        if !self.example.is_null() {
            schema["examples"] = json!([self.example]);
        }
        schema
    }
}

/// Text.
pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// What people call something.
pub(super) fn name() -> Value {
    json!({"type": "string", "maxLength": 256})
}

/// A description or a reason.
pub(super) fn prose() -> Value {
    json!({"type": "string", "maxLength": 1_024})
}

/// A reason that is not empty.
pub(super) fn some_prose() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 1_024})
}

/// A reason that has to be given.
pub(super) fn needed_reason() -> Value {
    json!({"type": "string", "pattern": "\\S", "maxLength": 1_024})
}

/// Text that is not empty.
pub(super) fn some_text() -> Value {
    json!({"type": "string", "minLength": 1})
}

/// One of some words.
pub(super) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// A whole number up to some other.
pub(super) fn whole(max: u64) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": max})
}

/// A list.
pub(super) fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An instant.
pub(super) fn instant() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// True or false.
pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    match schema.get("type").cloned() {
        Some(Value::String(kind)) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}
