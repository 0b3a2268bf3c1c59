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

/// `; did you mean …?` if one of the names is close to what was written.
pub(crate) fn suggestion<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    if written.len() > MAX_SLIP_BYTES {
        return String::new();
    }
    let near = names
        .into_iter()
        .map(|name| {
            let distance = strsim::damerau_levenshtein(&written.to_lowercase(), &name.to_lowercase());
            (distance, name)
        })
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
        .min();
    near.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}
