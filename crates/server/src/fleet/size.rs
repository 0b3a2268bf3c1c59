//! The number of nodes that a fleet has, as far as one of them knows: what `failMode: local` divides a limit by.
//!
//! Redis tells it. A node that starts while Redis is unavailable goes by what it knew when it last ran, kept in the data
//! directory, and if it knows nothing by what the operator expects, or else by a number that is rather too high.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number that is assumed where nothing is known: fleets are seldom larger.
pub const ASSUMED_NODES: u64 = 10;
/// The time for which a number counts that was greater than the one that Redis tells now.
const REMEMBERED_S: u64 = 600;
/// The time after which the file is written again, though the number is the same.
const REWRITTEN_S: u64 = 60;

/// Where a number is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Redis, since this node has started.
    Redis,
    /// The data directory: what this node knew when it last ran.
    DataDirectory,
    /// The setting `--fleet-nodes`.
    Setting,
    /// Nowhere: it is assumed.
    Assumption,
}

impl Source {
    /// Its name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::DataDirectory => "dataDirectory",
            Self::Setting => "setting",
            Self::Assumption => "assumption",
        }
    }
}

/// A number of nodes, and when it was known, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    nodes: u64,
    at_s: u64,
}

/// The size of a fleet.
pub(super) struct Size {
    path: PathBuf,
    /// The fleet: its region and where its Redis is.
    fleet: String,
    /// What the operator expects.
    expected: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was known when this node last ran.
    kept: Option<Known>,
    /// What Redis has told last.
    heard: Option<Known>,
    /// What the file has.
    written: Option<Known>,
}

impl Size {
    /// What is known of a fleet when a node starts.
    pub(super) fn read(data_dir: &Path, fleet: String, expected: Option<u64>) -> Self {
        let path = data_dir.join("fleet-size");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept = text
            .lines()
            .filter_map(read_line)
            .find(|(_, name)| *name == fleet);
        let kept = kept.map(|(known, _)| known);
        Self {
            path,
            fleet,
            expected,
            state: Mutex::new(State {
                kept,
                heard: None,
                written: kept,
            }),
        }
    }

    /// The number of nodes to share a limit by while Redis is unavailable, and where it is from.
    pub(super) fn nodes(&self) -> (u64, Source) {
        let (nodes, source) = self.state().known();
        match (nodes, self.expected) {
            (Some(nodes), Some(expected)) if expected > nodes => (expected, Source::Setting),
            (Some(nodes), _) => (nodes, source),
            (None, Some(expected)) => (expected, Source::Setting),
            (None, None) => (ASSUMED_NODES, Source::Assumption),
        }
    }

    /// Takes note of what Redis tells, the highest number of the last ten minutes. True if it is to be
    /// [written](Size::write).
    pub(super) fn hear(&self, nodes: u64, now_s: u64) -> bool {
        let mut state = self.state();
        // A number that was kept is outdated by a greater one, and after a while by any.
        let outdated = |kept: &mut Known| nodes >= kept.nodes || kept.at_s.abs_diff(now_s) >= REMEMBERED_S;
        state.kept.take_if(outdated);
        state.heard = Some(Known { nodes, at_s: now_s });
        let is_written = |known: Known| known.nodes == nodes && known.at_s.abs_diff(now_s) < REWRITTEN_S;
        state.kept.is_none() && !state.written.is_some_and(is_written)
    }

    /// Has the number outlive the process, with its time: whole, or not at all.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut state = self.state();
        let Some(heard) = state.heard else { return Ok(()) };
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let others = text.lines().filter(|line| match read_line(line) {
            Some((_, fleet)) => fleet != self.fleet,
            None => false,
        });
        let mut lines: Vec<String> = others.map(str::to_owned).collect();
        lines.push(format!("{} {} {}", heard.nodes, heard.at_s, self.fleet));
        let draft = self.path.with_extension("next");
        let mut file = File::create(&draft)?;
        writeln!(file, "{}", lines.join("\n"))?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        state.written = Some(heard);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn known(&self) -> (Option<u64>, Source) {
        let kept = self.kept.map(|kept| kept.nodes);
        match self.heard {
            Some(heard) if kept.is_none_or(|kept| heard.nodes >= kept) => (Some(heard.nodes), Source::Redis),
            _ => (kept, Source::DataDirectory),
        }
    }
}

/// A line of the file: what is known, and of which fleet.
fn read_line(line: &str) -> Option<(Known, &str)> {
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let known = Known {
        nodes: number().filter(|nodes| *nodes > 0)?,
        at_s: number()?,
    };
    Some((known, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLEET: &str = "eu redis://10.0.0.1:6379";

    fn size(directory: &Path, expected: Option<u64>) -> Size {
        Size::read(directory, FLEET.to_owned(), expected)
    }

    #[test]
    fn what_was_heard_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let first = size(directory.path(), None);
        assert_eq!(first.nodes(), (ASSUMED_NODES, Source::Assumption));
        assert!(first.hear(3, 1_000));
        assert_eq!(first.nodes(), (3, Source::Redis));
        first.write().unwrap();
        assert!(!first.hear(3, 1_059) && first.hear(3, 1_060) && first.hear(4, 1_001));
        let second = size(directory.path(), None);
        assert_eq!(second.nodes(), (3, Source::DataDirectory), "however old it is");
        let other = Size::read(directory.path(), "us redis://10.0.0.1:6379".to_owned(), None);
        assert_eq!(
            other.nodes(),
            (ASSUMED_NODES, Source::Assumption),
            "another fleet"
        );
        assert!(other.hear(7, 1_000));
        other.write().unwrap();
        assert_eq!(size(directory.path(), None).nodes(), (3, Source::DataDirectory));
    }

    #[test]
    fn a_greater_number_that_was_kept_counts_for_ten_minutes() {
        let directory = tempfile::tempdir().unwrap();
        let first = size(directory.path(), None);
        assert!(first.hear(5, 1_000));
        first.write().unwrap();
        let second = size(directory.path(), None);
        assert!(!second.hear(1, 1_200), "the file has the greater one");
        assert_eq!(second.nodes(), (5, Source::DataDirectory));
        assert!(second.hear(1, 1_600));
        assert_eq!(second.nodes(), (1, Source::Redis));
    }

    #[test]
    fn the_operators_number_is_the_least() {
        let directory = tempfile::tempdir().unwrap();
        let size = size(directory.path(), Some(4));
        assert_eq!(size.nodes(), (4, Source::Setting));
        size.hear(2, 1_000);
        assert_eq!(size.nodes(), (4, Source::Setting));
        size.hear(6, 1_000);
        assert_eq!(size.nodes(), (6, Source::Redis));
    }

    #[test]
    fn a_file_that_can_t_be_read_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for text in [
            "",
            "3",
            "0 5 eu redis://10.0.0.1:6379",
            "x 5 eu redis://10.0.0.1:6379",
            "\u{0}",
        ] {
            fs::write(directory.path().join("fleet-size"), text).unwrap();
            assert_eq!(
                size(directory.path(), None).nodes().1,
                Source::Assumption,
                "{text:?}"
            );
        }
    }
}
