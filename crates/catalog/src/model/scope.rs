//! What a limit counts together.

use std::cmp::Ordering;
use std::fmt;

use crate::document::{Node, Problems, Value};

/// One thing a request has that counts can be kept by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Everything together.
    Global,
    /// All callers of the policy's pattern together.
    Endpoint,
    /// The client's address.
    Ip,
    /// The organization.
    Org,
    /// The app, within its org.
    App,
    /// The key, within its org.
    Key,
    /// The user, within their org.
    User,
    /// A descriptor of this name.
    Descriptor(String),
}

const NAMES: [(&str, Dimension); 7] = [
    ("global", Dimension::Global),
    ("endpoint", Dimension::Endpoint),
    ("ip", Dimension::Ip),
    ("org", Dimension::Org),
    ("app", Dimension::App),
    ("key", Dimension::Key),
    ("user", Dimension::User),
];

impl Dimension {
    /// Reads a dimension's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("descriptor:") {
            super::check_id(name).map_err(|problem| format!("the descriptor's name {problem}"))?;
            return Ok(Self::Descriptor(name.to_owned()));
        }
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, dimension)| dimension.clone()).ok_or_else(|| {
            let names = NAMES.iter().map(|(name, _)| *name);
            let near = crate::document::suggestion(text, names.clone());
            let names: Vec<&str> = names.collect();
            format!(
                "`{text}` is not one of {}, descriptor:NAME{near}",
                names.join(", ")
            )
        })
    }

    /// Whether it means something only within an org.
    pub fn within_org(&self) -> bool {
        matches!(self, Self::Org | Self::App | Self::Key | Self::User)
    }
}

impl Dimension {
    /// Its place in the order of dimensions. Names of counters go by that order, so it stays as it is.
    fn rank(&self) -> (u8, &str) {
        match self {
            Self::Global => (0, ""),
            Self::Endpoint => (1, ""),
            Self::Ip => (2, ""),
            Self::Org => (3, ""),
            Self::App => (4, ""),
            Self::Key => (5, ""),
            Self::User => (6, ""),
            Self::Descriptor(name) => (7, name),
        }
    }
}

impl Ord for Dimension {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Dimension {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Descriptor(name) = self {
            return write!(f, "descriptor:{name}");
        }
        let known = NAMES.iter().find(|(_, dimension)| dimension == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}

/// What is counted together: one dimension, or several at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope(Vec<Dimension>);

impl Default for Scope {
    fn default() -> Self {
        Self(vec![Dimension::Org])
    }
}

impl Scope {
    /// A scope of one dimension.
    pub fn of(dimension: Dimension) -> Self {
        Self(vec![dimension])
    }

    /// Its dimensions, as they were written.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.0
    }

    /// Its only dimension, if it has just one.
    pub fn single(&self) -> Option<&Dimension> {
        match self.0.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The scope with one more dimension.
    #[must_use]
    pub fn with(&self, dimension: Dimension) -> Self {
        if self.0.contains(&dimension) {
            return self.clone();
        }
        let kept = self.0.iter().filter(|d| **d != Dimension::Global).cloned();
        Self(kept.chain([dimension]).collect())
    }

    /// Whether one of its dimensions means something only within an org.
    pub fn within_org(&self) -> bool {
        self.0.iter().any(Dimension::within_org)
    }

    /// From broad to narrow: the order in which levels are shown.
    pub fn breadth(&self) -> u8 {
        match self.single() {
            Some(Dimension::Global) => 0,
            Some(Dimension::Endpoint) => 1,
            Some(Dimension::Ip) => 2,
            Some(Dimension::Org) => 3,
            Some(Dimension::App) => 4,
            Some(Dimension::Key) => 5,
            Some(Dimension::User) => 6,
            Some(Dimension::Descriptor(_)) => 7,
            None => 8,
        }
    }

    /// Reads a name, names joined by `+`, or a list of names.
    pub fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let mut dimensions: Vec<Dimension> = Vec::new();
        let mut add = |text: &str, line: usize, problems: &mut Problems| match Dimension::parse(text) {
            Err(message) => problems.add(line, path, message),
            Ok(dimension) if dimensions.contains(&dimension) => {
                problems.add(line, path, format!("names {dimension} twice"));
            }
            Ok(dimension) => dimensions.push(dimension),
        };
        match &node.value {
            Value::Scalar { text, .. } => text.split('+').for_each(|name| add(name, node.line, problems)),
            Value::List(items) => {
                for item in items {
                    match &item.value {
                        Value::Scalar { text, .. } => add(text, item.line, problems),
                        _ => problems.add(item.line, path, "must be a list of names"),
                    }
                }
            }
            Value::Map(_) => problems.add(node.line, path, "must be a name or a list of names"),
        }
        if problems.0.len() > before {
            return None;
        }
        if dimensions.is_empty() {
            problems.add(node.line, path, "must name at least one dimension");
            return None;
        }
        if dimensions.len() > 1 && dimensions.contains(&Dimension::Global) {
            problems.add(
                node.line,
                path,
                "global already counts everything; leave the others out",
            );
            return None;
        }
        Some(Self(dimensions))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dimension) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            write!(f, "{dimension}")?;
        }
        Ok(())
    }
}
