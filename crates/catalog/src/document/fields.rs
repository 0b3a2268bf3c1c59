//! Reading a mapping field by field: every problem is noted with its place, and nothing stops at the first.

use super::lines::{FieldLines, path_of};
use super::node::{Node, Value};
use super::problem::{Problems, suggestion};

/// A mapping being read. Fields that nobody asked for are problems when it is [finished](Self::finish).
#[derive(Clone)]
pub struct Fields<'n> {
    items: &'n [(String, Node)],
    /// The path of this mapping in the document.
    pub path: String,
    /// Its line.
    pub line: usize,
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Starts to read a mapping, or notes that the node is none.
    pub fn of(node: &'n Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let Value::Map(items) = &node.value else {
            problems.add(node.line, path, format!("must be a mapping, not {}", node.kind()));
            return None;
        };
        Some(Self {
            items,
            path: path.to_owned(),
            line: node.line,
            asked: Vec::new(),
        })
    }

    /// The node of a field, if it is there and not null.
    pub fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.asked.push(name);
        let (_, node) = self.items.iter().find(|(key, _)| key == name)?;
        (!node.is_null()).then_some(node)
    }

    /// Whether somebody has asked for a field.
    pub(crate) fn asked_for(&self, name: &str) -> bool {
        self.asked.contains(&name)
    }

    /// Whether a field is there.
    pub fn has(&self, name: &str) -> bool {
        self.items
            .iter()
            .any(|(key, node)| key == name && !node.is_null())
    }

    /// Whether none is written, not even without a value.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The line of a field, or of the mapping if it is absent.
    pub fn line_of(&self, name: &str) -> usize {
        let found = self.items.iter().find(|(key, _)| key == name);
        found.map_or(self.line, |(_, node)| node.line)
    }

    /// The path of a field.
    pub fn path_of(&self, name: &str) -> String {
        path_of(&self.path, name)
    }

    /// The lines of the fields that somebody has asked for.
    pub fn lines(&self) -> FieldLines {
        let asked = |name: &str| self.asked.iter().copied().find(|asked| *asked == name);
        let elsewhere = self.items.iter().filter(|(_, node)| node.line != self.line);
        elsewhere
            .filter_map(|(name, node)| Some((asked(name)?, node.line)))
            .collect()
    }

    /// A field's text as it is written, whatever else is wrong with the mapping.
    pub(crate) fn written(&self, name: &str) -> Option<&'n str> {
        let found = self.items.iter().find(|(key, _)| key == name);
        match &found?.1.value {
            Value::Scalar { text, .. } if self.has(name) => Some(text),
            _ => None,
        }
    }

    /// Notes a problem with a field.
    pub fn problem(&self, problems: &mut Problems, name: &str, message: impl Into<String>) {
        problems.add(self.line_of(name), self.path_of(name), message);
    }

    /// A field's text.
    pub fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'n str> {
        let node = self.node(name)?;
        let Value::Scalar { text, .. } = &node.value else {
            self.problem(problems, name, format!("must be text, not {}", node.kind()));
            return None;
        };
        if text.is_empty() {
            self.problem(problems, name, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// A field's text, made into something; the error says what is wrong with it.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name, problems)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.problem(problems, name, message);
                None
            }
        }
    }

    /// A field that is one of some names.
    pub fn one_of<T: Copy>(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
        names: &[(&str, T)],
    ) -> Option<T> {
        self.parsed(name, problems, |text| {
            let found = names.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                let near = suggestion(text, known.iter().copied());
                format!("`{text}` is not one of {}{near}", known.join(", "))
            })
        })
    }

    /// A field's whole number, at most `max`.
    pub fn whole(&mut self, name: &'static str, max: u64, problems: &mut Problems) -> Option<u64> {
        let node = self.node(name)?;
        let number = match &node.value {
            // Some readers of YAML take 010 for eight.
            Value::Scalar { text, .. } if text.len() > 1 && text.starts_with('0') => None,
            Value::Scalar { text, quoted: false } => text.parse::<u64>().ok(),
            _ => None,
        };
        let number = number.filter(|number| *number <= max);
        if number.is_none() {
            self.problem(problems, name, format!("must be a whole number from 0 to {max}"));
        }
        number
    }

    /// A field that is true or false.
    pub fn flag(&mut self, name: &'static str, problems: &mut Problems) -> Option<bool> {
        self.one_of(name, problems, &[("true", true), ("false", false)])
    }

    /// The items of a field that is a list, each with its path.
    pub fn list(&mut self, name: &'static str, problems: &mut Problems) -> Vec<(String, &'n Node)> {
        let path = self.path_of(name);
        let Some(node) = self.node(name) else {
            return Vec::new();
        };
        let Value::List(items) = &node.value else {
            self.problem(problems, name, format!("must be a list, not {}", node.kind()));
            return Vec::new();
        };
        let numbered = items.iter().enumerate();
        numbered
            .map(|(index, item)| (format!("{path}[{index}]"), item))
            .collect()
    }

    /// Notes fields that belong to a later version, so that nobody believes them to be in force.
    pub fn unavailable(&mut self, names: &[&'static str], problems: &mut Problems) {
        for name in names {
            if self.node(name).is_some() {
                self.problem(problems, name, "is not available in this version");
            }
        }
    }

    /// Notes every field that nobody asked for, with the nearest known name.
    pub fn finish(self, problems: &mut Problems) {
        for (name, node) in self.items {
            if !self.asked.contains(&name.as_str()) {
                let near = suggestion(name, self.asked.iter().copied());
                problems.add(
                    node.line,
                    self.path_of(name),
                    format!("is not a known field{near}"),
                );
            }
        }
    }
}
