//! The descriptor that a policy is for, where requests bring theirs as Envoy does: a domain, and entries in order.

use std::fmt;

use serde_json::{Value as Json, json};

use super::check_id;
use crate::document::{Fields, Node, Problems};

/// How many entries a descriptor may have.
const MAX_ENTRIES: usize = 32;

/// A domain, and entries in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DescriptorPath {
    /// The domain.
    pub domain: String,
    /// The entries. A request's must be as many.
    pub entries: Vec<DescriptorEntry>,
}

/// One entry: a key, and what values it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DescriptorEntry {
    /// The key.
    pub key: String,
    /// The value, in which `*` stands for any characters; `None` for every value that no other policy names.
    pub value: Option<String>,
}

impl DescriptorPath {
    /// Reads `{domain, entries: [{key, value}]}`.
    pub(super) fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let mut fields = Fields::of(node, path, problems)?;
        let id = |text: &str| check_id(text).map(|()| text.to_owned()).map_err(str::to_owned);
        let domain = fields.parsed("domain", problems, id);
        let mut entries = Vec::new();
        for (path, node) in fields.list("entries", problems) {
            let Some(mut entry) = Fields::of(node, &path, problems) else {
                continue;
            };
            let key = entry.parsed("key", problems, id);
            let value = entry.parsed("value", problems, id);
            if !entry.has("key") {
                entry.problem(problems, "key", "is missing");
            }
            entry.finish(problems);
            entries.extend(key.map(|key| DescriptorEntry { key, value }));
        }
        for name in ["domain", "entries"] {
            if !fields.has(name) {
                fields.problem(problems, name, "is missing");
            }
        }
        if !(1..=MAX_ENTRIES).contains(&entries.len()) {
            fields.problem(problems, "entries", "must have 1 to 32 entries");
        }
        fields.finish(problems);
        let domain = domain.filter(|_| problems.0.len() == before)?;
        Some(Self { domain, entries })
    }

    /// The document that reads as the same again.
    pub(super) fn written(&self) -> Json {
        let entry = |entry: &DescriptorEntry| match &entry.value {
            Some(value) => json!({"key": entry.key, "value": value}),
            None => json!({"key": entry.key}),
        };
        json!({"domain": self.domain, "entries": self.entries.iter().map(entry).collect::<Json>()})
    }
}

impl fmt::Display for DescriptorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.domain)?;
        for entry in &self.entries {
            write!(f, ".{}", entry.key)?;
            if let Some(value) = &entry.value {
                write!(f, "={value}")?;
            }
        }
        Ok(())
    }
}
