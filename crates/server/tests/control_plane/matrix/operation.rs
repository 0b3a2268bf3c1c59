//! An operation of the served document, and what the document says of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::world::Place;

pub struct Operation {
    pub method: String,
    pub path: String,
    /// Whether no token is asked for.
    pub open: bool,
    /// Where each role may call it.
    pub roles: BTreeMap<String, String>,
    /// Whether it changes something, and so can be tried.
    pub writes: bool,
    /// Whether there has to be a body.
    pub body_required: bool,
    /// An example of its body.
    pub body: Option<Value>,
    /// The statuses it may answer.
    pub answers: BTreeSet<u16>,
    schema: Option<String>,
}

impl Operation {
    /// All operations of a document. One that does not say who may call it fails the test.
    pub fn all(document: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                all.push(Self::read(document, path, method, operation));
            }
        }
        assert!(all.len() >= 40, "the document has only {} operations", all.len());
        all
    }

    fn read(document: &Value, path: &str, method: &str, operation: &Value) -> Self {
        let open = operation["security"].as_array().is_some_and(Vec::is_empty);
        let roles = operation["x-tollgate-roles"].as_object();
        let roles = roles.unwrap_or_else(|| panic!("{method} {path} does not say which roles may call it"));
        let roles: BTreeMap<String, String> = roles
            .iter()
            .map(|(role, place)| (role.clone(), place.as_str().unwrap().to_owned()))
            .collect();
        assert!(!roles.is_empty(), "nobody may call {method} {path}");
        let schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
        let schema = schema.map(|reference| reference.rsplit('/').next().unwrap().to_owned());
        let example = schema.as_ref().map(|name| {
            let examples = document["components"]["schemas"][name]["examples"].as_array();
            examples
                .unwrap_or_else(|| panic!("{name} has no example"))
                .last()
                .unwrap()
                .clone()
        });
        let parameters = operation["parameters"].as_array().unwrap();
        Self {
            method: method.to_uppercase(),
            path: path.to_owned(),
            open,
            roles,
            writes: parameters
                .iter()
                .any(|one| one["$ref"] == "#/components/parameters/dryRun"),
            body_required: operation["requestBody"]["required"] == true,
            body: example,
            answers: operation["responses"]
                .as_object()
                .unwrap()
                .keys()
                .map(|code| code.parse().unwrap())
                .collect(),
            schema,
        }
    }

    /// Whether it is about one org or what belongs to one: named in its path or its body, or by a token's id.
    pub fn places(&self) -> &'static [Place] {
        let in_body = self.body.as_ref().is_some_and(|body| body.get("orgId").is_some());
        if self.path.contains("{orgId}") || self.path == "/v1/tokens/{id}" || in_body {
            &[Place::Own, Place::Foreign, Place::Absent]
        } else {
            &[Place::Platform]
        }
    }

    /// The fields of its body, if that is an object.
    pub fn fields(&self, document: &Value) -> Option<Vec<String>> {
        let schema = &document["components"]["schemas"][self.schema.as_ref()?];
        let fields = schema["properties"].as_object()?;
        assert_eq!(schema["additionalProperties"], false, "{}", self.path);
        Some(fields.keys().cloned().collect())
    }
}
