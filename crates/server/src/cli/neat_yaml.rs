//! Policies as YAML that a person would have written: the id first, no defaults, one line where that is enough.

use std::fmt::Write;

use serde_json::{Map, Value};
use tollgate_catalog::model::Policy;

/// The fields in the order in which people think of them. Others follow.
const ORDER: [&str; 13] = [
    "id",
    "orgTier",
    "scope",
    "endpointPattern",
    "requiredScope",
    "match",
    "descriptor",
    "replaces",
    "quotaMode",
    "algorithm",
    "limit",
    "burst",
    "window",
];

/// What a field says if it is left out.
const DEFAULTS: [(&str, &str); 3] = [("orgTier", "*"), ("endpointPattern", "*"), ("mode", "enforce")];

/// The longest line.
const WIDTH: usize = 110;

/// A policy as an item of a list.
pub(super) fn item(policy: &Policy) -> String {
    let fields = fields(policy);
    let line = format!("  - {}\n", flow_of(&fields));
    if line.chars().count() <= WIDTH {
        return line;
    }
    let mut text = String::new();
    for (index, (name, value)) in fields.iter().enumerate() {
        let indent = if index == 0 { "  - " } else { "    " };
        let line = format!("{indent}{name}: {}", flow(value));
        if line.chars().count() <= WIDTH {
            text.push_str(&line);
        } else {
            let _ = write!(text, "{indent}{name}:");
            block(value, 6, &mut text);
        }
        text.push('\n');
    }
    text
}

/// The fields that say something, in order.
fn fields(policy: &Policy) -> Vec<(String, Value)> {
    let mut document = policy.written();
    for (name, default) in DEFAULTS {
        if document.get(name).and_then(Value::as_str) == Some(default) {
            document.remove(name);
        }
    }
    let mut implied = policy.values.clone();
    implied.algorithm = None;
    if implied.algorithm_name() == policy.values.algorithm_name() {
        document.remove("algorithm");
    }
    let mut fields: Vec<(String, Value)> = document.into_iter().collect();
    let place = |name: &str| {
        let known = ORDER.iter().position(|known| *known == name);
        known.unwrap_or(ORDER.len())
    };
    fields.sort_by_key(|(name, _)| place(name));
    fields
}

fn flow_of<'v>(fields: impl IntoIterator<Item = &'v (String, Value)>) -> String {
    let pairs = fields
        .into_iter()
        .map(|(name, value)| format!("{}: {}", scalar(name), flow(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<(String, Value)> = in_order(members);
            flow_of(&members)
        }
        other => other.to_string(),
    }
}

/// A value on lines of its own, with an item on each.
fn block(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Array(items) => {
            for item in items {
                let _ = write!(text, "\n{:indent$}- {}", "", flow(item));
            }
        }
        Value::Object(members) => {
            for (name, value) in in_order(members) {
                let _ = write!(text, "\n{:indent$}{}:", "", scalar(&name));
                match &value {
                    Value::Array(_) => block(&value, indent + 2, text),
                    other => {
                        let _ = write!(text, " {}", flow(other));
                    }
                }
            }
        }
        other => {
            let _ = write!(text, " {}", flow(other));
        }
    }
}

/// Names come in the order of the alphabet, which has a descriptor's parts as they are meant.
fn in_order(members: &Map<String, Value>) -> Vec<(String, Value)> {
    let members = members.iter();
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Text that reads as itself: plain where nothing in it means anything to YAML, else in quotes.
fn scalar(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-+:".contains(&byte);
    let begins_plainly = text
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_' || first == b'/');
    let means_something = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan",
    ];
    let is_word = begins_plainly
        && text.bytes().all(plain)
        && !text.ends_with(':')
        && !means_something.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_word || is_length(text) {
        return text.to_owned();
    }
    // The quotes of JSON are YAML's.
    Value::from(text).to_string()
}

/// A length of time, such as `90s`.
fn is_length(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && matches!(&text[digits..], "ms" | "s" | "m" | "h" | "d")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_catalog::document::{Value as Read, parse_yaml};

    use super::*;

    /// Words, signs that YAML has a use for, and words that are something else to it.
    fn texts_of_all_kinds() -> impl Strategy<Value = String> {
        prop_oneof![
            "\\PC{0,12}",
            "[a-z0-9:.#*&!%@{}\\[\\], '\"/_-]{0,8}",
            "true|Off|null|0x1F|1e3|~|=|<<|90s|1d|-|---",
        ]
    }

    proptest! {
        #[test]
        fn a_scalar_reads_as_itself(text in texts_of_all_kinds()) {
            let yaml = format!("list: [{{name: {}}}]\nother: {}\n", scalar(&text), scalar(&text));
            let root = parse_yaml(&yaml);
            prop_assert!(root.is_ok(), "{yaml}: {root:?}");
            let mut read = Vec::new();
            texts(&root.map_or(Read::List(Vec::new()), |root| root.value), &mut read);
            prop_assert_eq!(read, [text.clone(), text], "{}", yaml);
        }
    }

    fn texts(value: &Read, found: &mut Vec<String>) {
        match value {
            Read::Scalar { text, .. } => found.push(text.clone()),
            Read::List(items) => items.iter().for_each(|item| texts(&item.value, found)),
            Read::Map(members) => members.iter().for_each(|(_, member)| texts(&member.value, found)),
        }
    }
}
