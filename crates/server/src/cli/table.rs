//! Tables with aligned columns.

/// Rows under headings; numbers to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with headings; one that begins with `>` is for a column of numbers.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            right: headings.iter().map(|heading| heading.starts_with('>')).collect(),
            rows: vec![
                headings
                    .iter()
                    .map(|heading| heading.trim_start_matches('>').to_owned())
                    .collect(),
            ],
        }
    }

    /// Adds a row. What others wrote, such as a reason, must not steer the terminal that it is shown on.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let shown = cells
            .into_iter()
            .map(|cell| cell.replace(char::is_control, "\u{fffd}"));
        self.rows.push(shown.collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.right.len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let cell = if self.right[column] {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                };
                if column > 0 {
                    line.push_str("  ");
                }
                line.push_str(&cell);
            }
            let line = line.trim_end();
            if number == 0 {
                let heading = super::HEADING;
                writeln!(f, "{heading}{line}{heading:#}")?;
            } else {
                writeln!(f, "{line}")?;
            }
        }
        Ok(())
    }
}
