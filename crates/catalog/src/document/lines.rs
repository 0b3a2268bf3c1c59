//! Where the fields of a mapping stand, for what turns out to be wrong only after it was read.

/// The lines of those fields that don't stand on the line of their mapping. JSON has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldLines(Box<[(&'static str, usize)]>);

impl FieldLines {
    /// The line of a field of a mapping that stands on a line.
    pub fn of(&self, name: &str, mapping: usize) -> usize {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or(mapping, |(_, line)| *line)
    }
}

impl FromIterator<(&'static str, usize)> for FieldLines {
    fn from_iter<I: IntoIterator<Item = (&'static str, usize)>>(lines: I) -> Self {
        Self(lines.into_iter().collect())
    }
}

/// The path of a field of the mapping at a path.
pub(crate) fn path_of(mapping: &str, name: &str) -> String {
    match (mapping.is_empty(), name.is_empty()) {
        (_, true) => mapping.to_owned(),
        (true, false) => name.to_owned(),
        (false, false) => format!("{mapping}.{name}"),
    }
}
