//! YAML into nodes. Aliases are followed, within bounds; keys are text and never repeat.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::lines::path_of;
use super::node::{Node, Value};
use super::problem::Problems;

/// Bytes that are copied for anchors and aliases at most: a bound against documents made to explode.
const MAX_COPIED_BYTES: usize = 64_000_000;
/// What a node takes beside its text, about.
const NODE_BYTES: usize = 64;
/// Fields that one mapping may have: looking for repeats compares each with all before it.
const MAX_FIELDS: usize = 1_000;
const MAX_DEPTH: usize = 64;

/// Reads one YAML document. An empty one is an empty mapping.
pub fn parse_yaml(text: &str) -> Result<Node, Problems> {
    let mut problems = Problems::default();
    let root = read_yaml(text, &mut problems);
    problems.sorted()?;
    root.ok_or_else(Problems::default)
}

/// The same, noting problems. Keys that repeat leave no doubt about the rest of the document and don't keep it from being
/// read; the first of them counts.
pub(crate) fn read_yaml(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, span.start.line()),
            Err(error) => {
                let line = error.marker().line();
                let message = format!("not valid YAML: {}{}", error.info(), tab_near(text, line));
                builder.give_up(line, "", message);
            }
        }
        if builder.given_up {
            break;
        }
    }
    problems.0.append(&mut builder.problems.0);
    let empty = Node {
        value: Value::Map(Vec::new()),
        line: 1,
    };
    let root = builder.root.filter(|root| !root.is_null());
    (!builder.given_up).then(|| root.unwrap_or(empty))
}

/// Says that a tab is what a line can't be read for, which nobody sees. What it breaks may have begun a line before.
fn tab_near(text: &str, line: usize) -> String {
    let numbered = text.lines().zip(1..).skip(line.saturating_sub(1)).take(2);
    let tab = numbered
        .filter(|(text, _)| text.contains('\t'))
        .map(|(_, number)| number)
        .next();
    tab.map_or_else(String::new, |number| {
        format!("; there is a tab on line {number}, where YAML takes spaces")
    })
}

enum Open {
    List {
        items: Vec<Node>,
        line: usize,
        anchor: usize,
    },
    Map {
        items: Vec<(String, Node)>,
        key: Option<String>,
        line: usize,
        anchor: usize,
    },
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    copied_bytes: usize,
    documents: usize,
    problems: Problems,
    /// What comes next can't be told.
    given_up: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.give_up(line, "", "holds a second document; one is expected");
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let value = Value::Scalar {
                    text: text.into_owned(),
                    quoted: style != ScalarStyle::Plain,
                };
                self.close(Node { value, line }, anchor);
            }
            Event::SequenceStart(anchor, _) => self.enter(
                Open::List {
                    items: Vec::new(),
                    line,
                    anchor,
                },
                line,
            ),
            Event::MappingStart(anchor, _) => {
                self.enter(
                    Open::Map {
                        items: Vec::new(),
                        key: None,
                        line,
                        anchor,
                    },
                    line,
                );
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { items, line, anchor }) => {
                    self.close(
                        Node {
                            value: Value::List(items),
                            line,
                        },
                        anchor,
                    );
                }
                Some(Open::Map {
                    items, line, anchor, ..
                }) => {
                    self.close(
                        Node {
                            value: Value::Map(items),
                            line,
                        },
                        anchor,
                    );
                }
                None => {}
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some((_, size)) if self.copied_bytes + size > MAX_COPIED_BYTES => {
                    self.give_up(line, "", "aliases make the document too large");
                }
                Some((node, size)) => {
                    // It stands where it is used; what is in it, where it is written.
                    let node = Node { line, ..node.clone() };
                    self.copied_bytes += size;
                    self.close(node, 0);
                }
                None => self.give_up(line, "", "refers to an anchor that is not complete"),
            },
            _ => {}
        }
    }

    /// Notes a problem that leaves no telling what comes next.
    fn give_up(&mut self, line: usize, path: &str, message: impl Into<String>) {
        self.problems.add(line, path, message);
        self.given_up = true;
    }

    fn enter(&mut self, open: Open, line: usize) {
        self.open.push(open);
        if self.open.len() > MAX_DEPTH {
            self.give_up(line, "", "is nested too deeply");
        }
    }

    /// Puts a finished node where it belongs.
    fn close(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            let size = size(&node);
            self.copied_bytes += size;
            if self.copied_bytes > MAX_COPIED_BYTES {
                return self.give_up(node.line, "", "anchors make the document too large");
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { items, key, .. }) => match (key.take(), node) {
                (Some(name), node) => items.push((name, node)),
                (
                    None,
                    Node {
                        value: Value::Scalar { text, .. },
                        line,
                    },
                ) => {
                    // Small maps are the rule; a quadratic look stays cheaper than a set.
                    let full = items.len() >= MAX_FIELDS;
                    let twice = items.iter().any(|(name, _)| *name == text);
                    *key = Some(text);
                    if full {
                        let message = format!("is one field too many: a mapping has at most {MAX_FIELDS}");
                        self.give_up(line, &self.path(), message);
                    } else if twice {
                        self.problems.add(line, self.path(), "is given twice");
                    }
                }
                (None, node) => self.give_up(node.line, "", "has a key that is not plain text"),
            },
        }
    }

    /// The path of what is being read: of a field whose name was just read, that field's.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::List { items, .. } => path = format!("{path}[{}]", items.len()),
                Open::Map { key, .. } => path = path_of(&path, key.as_deref().unwrap_or_default()),
            }
        }
        path
    }
}

/// About how many bytes a node takes with all that is in it.
fn size(node: &Node) -> usize {
    NODE_BYTES
        + match &node.value {
            Value::Scalar { text, .. } => text.len(),
            Value::List(items) => items.iter().map(size).sum(),
            Value::Map(items) => items.iter().map(|(name, node)| name.len() + size(node)).sum(),
        }
}
