//! The policy file that was last in force, in the data directory: a file that changes while the server is stopped is a
//! change of that one, as if it had changed while the server ran.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_catalog::model::{Eras, PolicySet};

use super::PolicyText;
use crate::catalogue::FileSet;
use crate::clock;

/// The record's name in the data directory.
const NAME: &str = "policies.applied";

/// Where the policy file that was last in force is on record.
#[derive(Debug)]
pub struct Applied {
    path: PathBuf,
}

/// The record.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// When the file came into force, in Unix milliseconds.
    at: u64,
    text: PolicyText,
    /// Since when its policies count the way they do, and how they counted before.
    eras: Option<Value>,
}

impl Applied {
    /// The record of a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(NAME),
        }
    }

    /// Takes a file as a change of the one that was last in force, and returns both; only the first if they are the
    /// same. A record that can't be used is as good as none.
    pub fn follow(&self, text: &PolicyText, set: PolicySet) -> (FileSet, Option<FileSet>) {
        let Some(record) = self.read() else {
            return (FileSet::given(set, Eras::default()), None);
        };
        let eras = record.eras.as_ref().map_or_else(Eras::default, Eras::read);
        if record.text == *text {
            return (FileSet::given(set, eras), None);
        }
        match record.text.parse() {
            Ok(before) => {
                let before = FileSet::given(before, eras);
                (before.changed(set, clock::now()), Some(before))
            }
            Err(error) => {
                self.warn(&error);
                (FileSet::given(set, eras), None)
            }
        }
    }

    /// Notes that a file is in force.
    pub fn note(&self, text: PolicyText, file: &FileSet) {
        let record = Record {
            at: clock::now().millis(),
            text,
            eras: file.eras.document(),
        };
        if let Err(error) = self.write(&record) {
            tracing::warn!(
                "{} can't be written: {error}. After a restart with a changed policy file, new counts will not know \
                 what the old ones had left",
                self.path.display()
            );
        }
    }

    fn read(&self) -> Option<Record> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                self.warn(&error);
                return None;
            }
        };
        let record = serde_json::from_reader(BufReader::new(file));
        record.map_err(|error| self.warn(&Error::from(error))).ok()
    }

    /// Writes it whole or not at all.
    fn write(&self, record: &Record) -> Result<()> {
        let next = self.path.with_extension("next");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = BufWriter::new(file.open(&next)?);
        serde_json::to_writer(&mut file, record)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&next, &self.path)?;
        self.path
            .parent()
            .map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    fn warn(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(
            "{}: {error}. If the policy file has changed since it was last in force, new counts will not know \
             what the old ones had left",
            self.path.display()
        );
    }
}
