//! A document as a tree whose nodes know their line.

/// A value and the line it stands on.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its line, from 1; 0 where a document has no lines.
    pub line: usize,
}

/// What a document is made of.
#[derive(Debug, Clone)]
pub enum Value {
    /// A single value as it is written.
    Scalar {
        /// Its text.
        text: String,
        /// Whether it was quoted, and so is text whatever it looks like.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// Names and values, in the order of the document.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Whether the value is absent: left empty, `~` or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
