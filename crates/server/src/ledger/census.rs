//! How many nodes share a ledger: what was last known outlives the process.

use std::path::{Path, PathBuf};

/// The file in the data directory that has the number.
const FILE: &str = "ledger-nodes";
/// What a node assumes that may share its ledger and has never counted.
const ASSUMED: u64 = 10;
/// The largest of so many counts is what is relied on: after the ledger was unavailable, or while nodes start, some are
/// late to say that they are alive.
const COUNTS: usize = 3;

/// The nodes that were counted.
#[derive(Debug)]
pub(super) struct Census {
    counts: [u64; COUNTS],
    next: usize,
    file: Option<PathBuf>,
    /// What the file says.
    kept: Option<u64>,
}

impl Census {
    /// What is known from before. Without a directory nothing is, and nothing is kept.
    pub(super) fn open(directory: Option<&Path>) -> Self {
        let file = directory.map(|directory| directory.join(FILE));
        let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let kept = text.and_then(|text| text.trim().parse().ok());
        let kept = kept.filter(|nodes| *nodes > 0);
        Self {
            // Others may be late when this node starts.
            counts: [kept.unwrap_or(0); COUNTS],
            next: 0,
            file,
            kept,
        }
    }

    /// How many nodes to reckon with.
    pub(super) fn nodes(&self) -> u64 {
        match self.counts.iter().max() {
            Some(0) | None => ASSUMED,
            Some(most) => *most,
        }
    }

    /// Notes a count. The error is that of the file, which then says something older.
    pub(super) fn note(&mut self, counted: u64) -> std::io::Result<()> {
        self.counts[self.next % COUNTS] = counted.max(1);
        self.next = self.next.wrapping_add(1);
        let nodes = self.nodes();
        if let Some(file) = self.file.as_ref().filter(|_| self.kept != Some(nodes)) {
            let next = file.with_extension("next");
            std::fs::write(&next, format!("{nodes}\n"))?;
            std::fs::rename(&next, file)?;
            self.kept = Some(nodes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_outlives_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let mut census = Census::open(Some(directory.path()));
        assert_eq!(census.nodes(), ASSUMED);
        census.note(3).unwrap();
        assert_eq!(census.nodes(), 3);
        let mut again = Census::open(Some(directory.path()));
        assert_eq!(again.nodes(), 3);
        again.note(1).unwrap();
        assert_eq!(again.nodes(), 3, "others may be late");
        std::fs::write(directory.path().join(FILE), "nonsense").unwrap();
        assert_eq!(Census::open(Some(directory.path())).nodes(), ASSUMED);
        assert_eq!(Census::open(None).nodes(), ASSUMED);
    }

    #[test]
    fn a_node_that_is_late_is_reckoned_with_for_a_while() {
        let mut census = Census::open(None);
        for counted in [3, 1, 1] {
            census.note(counted).unwrap();
            assert_eq!(census.nodes(), 3);
        }
        census.note(1).unwrap();
        assert_eq!(census.nodes(), 1);
        census.note(4).unwrap();
        assert_eq!(census.nodes(), 4);
    }
}
