//! What is wrong with a document, and where.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 where there is none.
    pub line: usize,
    /// The path to the field, such as `policies[2].window`; empty for the document itself.
    pub field: String,
    /// What is wrong with it, in lowercase.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a document, in the order it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Notes a problem.
    pub fn add(&mut self, line: usize, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            line,
            field: field.into(),
            message: message.into(),
        });
    }

    /// What may have been meant by a name, while there are few problems. Where anything can be a name, it is asked here.
    pub(crate) fn suggestion<'a>(&self, written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
        if self.are_few() {
            suggestion(written, names)
        } else {
            String::new()
        }
    }

    /// Whether there are so few that each may say what was meant.
    pub(crate) fn are_few(&self) -> bool {
        self.0.len() < MAX_SUGGESTIONS
    }

    /// Nothing, if nothing is wrong; else all of it by line.
    pub fn sorted(mut self) -> Result<(), Self> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|problem| problem.line);
        Err(self)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// What is longer than this is nobody's slip of the pen, and comparing it takes time and memory.
const MAX_SLIP_BYTES: usize = 64;

/// Who has made so many mistakes reads no further, and to look for what each might have meant takes time: a file may have
/// as many names as it has mistakes.
const MAX_SUGGESTIONS: usize = 20;

/// `; did you mean …?` if one of the names is close to what was written. Letters in the wrong case are no difference, two
/// that changed places are one.
pub(crate) fn suggestion<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    if written.len() > MAX_SLIP_BYTES {
        return String::new();
    }
    let written = written.to_lowercase();
    let length = written.chars().count();
    let near = names
        .into_iter()
        .filter_map(|name| {
            let other = name.chars().count();
            let slips = slips(length.max(other));
            if length.abs_diff(other) > slips {
                return None;
            }
            let distance = strsim::damerau_levenshtein(&written, &name.to_lowercase());
            (distance <= slips).then_some((distance, name))
        })
        .min();
    near.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

/// In how many letters a word of some length may differ and still be meant: any two short ones are nearly the same.
fn slips(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=4 => 1,
        5..=7 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_a_word_the_closer_it_must_be() {
        for (written, names, meant) in [
            ("x", ["id", "limit"], None),
            ("zz", ["id", "limit"], None),
            ("", ["ip", "org"], None),
            ("q", ["ip", "org"], None),
            ("org", ["PRC", "ROC"], None),
            ("ID", ["id", "limit"], Some("id")),
            ("or", ["ip", "org"], Some("org")),
            ("dya", ["day", "week"], Some("day")),
            ("dxx", ["day", "week"], None),
            ("opened", ["open", "closed"], Some("open")),
            ("limits", ["limit", "burst"], Some("limit")),
            ("enterprize", ["Enterprise", "default"], Some("Enterprise")),
            ("endpoint", ["endpointPattern", "id"], None),
        ] {
            let told = meant.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            assert_eq!(suggestion(written, names), told, "{written}");
        }
    }
}
