//! How values are written in names that outlive a process: those of counters in Redis and in the ledger, and those of requests
//! that carry an `Idempotency-Key`.
//!
//! What is written here is fixed for ever. Another text for the same value would be another counter, and whatever was used of
//! the first one would be forgotten. It is what the `Debug` of these types wrote when they were first named; since then
//! types may be renamed, and this may not.

mod escapes;

use std::fmt::{Display, Write as _};

use escapes::BOUNDS;

/// Writes a text in quotes, with a backslash before what would end it and the numbers of characters that are not shown.
pub fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(character),
            _ if is_escaped(character) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn is_escaped(character: char) -> bool {
    let code = u32::from(character);
    code < 0x80 || BOUNDS.partition_point(|bound| *bound <= code) % 2 == 1
}

/// Writes a value that may be missing.
pub fn optional(value: Option<impl Display>, out: &mut String) {
    match value {
        Some(value) => {
            let _ = write!(out, "Some({value})");
        }
        None => out.push_str("None"),
    }
}

/// Writes items between brackets of either kind, each by a function.
pub fn listed<T>(
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(close);
}

/// Writes texts by their names, in the order they come in.
pub fn texts<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>, out: &mut String) {
    listed(['{', '}'], pairs, out, |(name, value), out| {
        quoted(name, out);
        out.push_str(": ");
        quoted(value, out);
    });
}

/// Writes numbers by their names, in the order they come in.
pub fn numbers<'t>(pairs: impl IntoIterator<Item = (&'t str, u64)>, out: &mut String) {
    listed(['{', '}'], pairs, out, |(name, value), out| {
        quoted(name, out);
        let _ = write!(out, ": {value}");
    });
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn of(text: &str) -> String {
        let mut out = String::new();
        quoted(text, &mut out);
        out
    }

    #[test]
    fn texts_are_quoted_as_they_always_were() {
        for (text, written) in [
            ("", r#""""#),
            ("plain text, it's", r#""plain text, it's""#),
            ("say \"hi\" \\", r#""say \"hi\" \\""#),
            ("\0\t\n\r\u{1b}\u{7f}", r#""\0\t\n\r\u{1b}\u{7f}""#),
            ("gr\u{fc}\u{df}e \u{1f600}", "\"gr\u{fc}\u{df}e \u{1f600}\""),
            ("e\u{301}\u{200b}\u{a0}", r#""e\u{301}\u{200b}\u{a0}""#),
            (
                "\u{378}\u{2028}\u{e000}\u{10ffff}",
                r#""\u{378}\u{2028}\u{e000}\u{10ffff}""#,
            ),
        ] {
            assert_eq!(of(text), written);
        }
    }

    /// The hash of every character as it was written by the version that first gave names.
    #[test]
    fn every_character_is_written_as_it_always_was() {
        let mut hash = Sha256::new();
        for character in '\0'..=char::MAX {
            hash.update(of(character.encode_utf8(&mut [0; 4])));
        }
        let mut text = String::new();
        for byte in hash.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        assert_eq!(
            text,
            "626cc8fd5701625fda6658db6f8c434ca25cc981c08b10a9897f9e7ba03c8a16"
        );
    }

    #[test]
    fn maps_are_written_as_they_always_were() {
        let mut out = String::new();
        numbers([], &mut out);
        numbers([("tokens", 1_200), ("a\"b", u64::MAX)], &mut out);
        texts([("region", "eu"), ("b", "\u{e9}")], &mut out);
        optional(None::<u8>, &mut out);
        optional(Some(24), &mut out);
        let written = "{}{\"tokens\": 1200, \"a\\\"b\": 18446744073709551615}{\"region\": \"eu\", \"b\": \"\u{e9}\"}NoneSome(24)";
        assert_eq!(out, written);
    }
}
