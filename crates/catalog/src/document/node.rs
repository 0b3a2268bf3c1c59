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
    /// The document a JSON value is. It has no lines; its strings are quoted, whatever they look like, and its
    /// numbers are written as JSON writes them, so that a reader refuses what it would refuse in a file.
    pub fn from_json(value: &serde_json::Value) -> Self {
        let scalar = |text: String, quoted| Value::Scalar { text, quoted };
        let value = match value {
            serde_json::Value::Null => scalar("null".to_owned(), false),
            serde_json::Value::Bool(flag) => scalar(flag.to_string(), false),
            serde_json::Value::Number(number) => scalar(number.to_string(), false),
            serde_json::Value::String(text) => scalar(text.clone(), true),
            serde_json::Value::Array(items) => Value::List(items.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(items) => {
                let items = items.iter();
                Value::Map(
                    items
                        .map(|(name, item)| (name.clone(), Self::from_json(item)))
                        .collect(),
                )
            }
        };
        Self { value, line: 0 }
    }

    /// The document as JSON, to be shown: what is written like null, true, false or a whole number becomes
    /// that unless it was quoted, and every other single value is text.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            _ if self.is_null() => serde_json::Value::Null,
            Value::Scalar { text, quoted: false } => plain_to_json(text),
            Value::Scalar { text, quoted: true } => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(items) => items
                .iter()
                .map(|(name, item)| (name.clone(), item.to_json()))
                .collect(),
        }
    }

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

fn plain_to_json(text: &str) -> serde_json::Value {
    match text {
        "true" => return true.into(),
        "false" => return false.into(),
        _ => {}
    }
    // Only what is written just as the number would be: `007` may be an id, which a number would change.
    let unsigned = text.parse::<u64>().ok().map(serde_json::Number::from);
    let number = unsigned.or_else(|| text.parse::<i64>().ok().map(serde_json::Number::from));
    number
        .filter(|number| number.to_string() == text)
        .map_or_else(|| text.into(), serde_json::Value::Number)
}
