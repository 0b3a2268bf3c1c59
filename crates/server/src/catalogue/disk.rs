//! The catalogue as this node last saw it, on disk: where idle orgs lie while it runs, and what it starts from when
//! its database is away.
//!
//! A file of lines, one JSON list each: revision, kind, org, id and body of an entry, or a revision alone, which says
//! that all up to it is there. After its [seal](super::seal) it begins with all there was, the entries of an org side
//! by side; later states are appended, and once those have become more than it began with it is written anew. A node
//! that is killed while it appends leaves something behind what is sealed; what is missing is read again from the
//! journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tollgate_catalog::repository::{Entry, Kind, Place};
use tollgate_catalog::snapshot::Span;

use super::seal::{Seal, Sum};

/// The file.
#[derive(Debug, Clone)]
pub struct Disk {
    path: PathBuf,
    /// Held by whoever writes it anew.
    renewing: Arc<Mutex<()>>,
}

/// How far a file has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Up to which change all is in it.
    pub(super) revision: i64,
    /// How many states it holds, and with how many it began.
    pub(super) lines: usize,
    pub(super) began: usize,
    /// What its seal says.
    pub(super) length: u64,
    pub(super) sum: Sum,
    pub(super) had_policies: bool,
}

impl Extent {
    fn seal(&self) -> Seal {
        Seal {
            length: self.length,
            sum: self.sum,
            had_policies: self.had_policies,
        }
    }
}

/// A state of an entry: what it is since a revision, or that it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) revision: i64,
    pub(super) place: Place,
    pub(super) body: Option<String>,
}

impl State {
    fn is_policy(&self) -> bool {
        self.place.kind == Kind::Policy
    }

    /// An entry as it is.
    pub(super) fn of(entry: Entry) -> Self {
        Self {
            revision: entry.revision,
            place: entry.place,
            body: Some(entry.body),
        }
    }

    /// The entry, or the place where there is none any more.
    pub(super) fn entry(self) -> Result<Entry, Place> {
        match self.body {
            Some(body) => Ok(Entry {
                place: self.place,
                body,
                revision: self.revision,
            }),
            None => Err(self.place),
        }
    }
}

/// A line of the file.
#[derive(Debug)]
pub(super) enum Line {
    State(State),
    /// All up to this change is there.
    Complete(i64),
    /// A state of something that only a newer version knows.
    Unknown,
}

impl Line {
    /// Reads a line; `None` if it is not one.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        if let Ok((revision, kind, org, id, body)) =
            serde_json::from_slice::<(i64, String, String, String, Option<String>)>(line)
        {
            let kind = Kind::stored(&kind);
            if kind == Kind::Unknown {
                return Some(Self::Unknown);
            }
            let place = Place { kind, org, id };
            return Some(Self::State(State {
                revision,
                place,
                body,
            }));
        }
        let (revision,) = serde_json::from_slice::<(i64,)>(line).ok()?;
        Some(Self::Complete(revision))
    }
}

impl Disk {
    /// The file of a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join("catalogue.snapshot"),
            renewing: Arc::default(),
        }
    }

    /// Opens the file to read; `None` if there is none.
    pub(super) fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a file that will take this one's place, once nobody else does.
    pub(super) async fn renew(&self) -> io::Result<NewFile> {
        let alone = self.renewing.clone().lock_owned().await;
        let draft = self.path.with_extension("new");
        // A crash may have left one behind, which others may have open.
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        // It holds the hashes of keys and tokens.
        options.create_new(true).read(true).write(true).mode(0o600);
        let mut file = NewFile {
            out: BufWriter::with_capacity(1 << 18, options.open(&draft)?),
            draft,
            path: self.path.clone(),
            _alone: alone,
            extent: Extent {
                length: Seal::BYTES,
                ..Extent::default()
            },
        };
        // Nobody takes the draft for more than it is yet.
        file.out.write_all(Seal::default().line().as_bytes())?;
        Ok(file)
    }

    /// What is sealed of the file, without the seal, and the last change that is in it whole. `None` if there is no
    /// file; one that is longer than `most` bytes is an error.
    pub(super) fn complete(&self, most: u64) -> io::Result<Option<(i64, Vec<u8>)>> {
        let Some(mut file) = self.open()? else {
            return Ok(None);
        };
        let Some(seal) = Seal::read(&file)? else {
            return Ok(None);
        };
        let length = seal.length.saturating_sub(Seal::BYTES);
        if length > most {
            return Err(io::Error::other(format!("it is larger than {most} bytes")));
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(Seal::BYTES))?;
        file.take(length).read_to_end(&mut text)?;
        let mut lines = text.rsplit(|byte| *byte == b'\n');
        // What is sealed ends with a whole line, behind which there is nothing.
        let last = lines.nth(1).and_then(Line::read);
        match last {
            Some(Line::Complete(revision)) if text.len() as u64 == length => Ok(Some((revision, text))),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")),
        }
    }

    /// Puts a whole file in this one's place.
    pub(super) async fn replace(&self, text: &[u8]) -> io::Result<()> {
        let mut file = self.renew().await?;
        file.write(text)?;
        file.place().map(|_| ())
    }

    /// Appends states to the file, and says how far it has come then. `None` if it is another file by now.
    pub(super) fn append(
        &self,
        kept: Extent,
        states: &[State],
        complete_to: i64,
    ) -> io::Result<Option<Extent>> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        if Seal::read(&file)? != Some(kept.seal()) {
            return Ok(None);
        }
        let mut text: Vec<u8> = states.iter().flat_map(|state| line(state).into_bytes()).collect();
        writeln!(text, "[{complete_to}]")?;
        file.write_all_at(&text, kept.length)?;
        let mut extent = Extent {
            revision: complete_to,
            lines: kept.lines + states.len(),
            length: kept.length + text.len() as u64,
            had_policies: kept.had_policies || states.iter().any(State::is_policy),
            ..kept
        };
        extent.sum.add(&text);
        extent.seal().set(&file)?;
        Ok(Some(extent))
    }
}

/// A file in the making.
pub(super) struct NewFile {
    out: BufWriter<File>,
    draft: PathBuf,
    path: PathBuf,
    _alone: OwnedMutexGuard<()>,
    extent: Extent,
}

impl NewFile {
    /// Adds a state, and says where it lies.
    pub(super) fn add(&mut self, state: &State) -> io::Result<Span> {
        let line = line(state);
        let span = Span {
            at: self.extent.length,
            bytes: u32::try_from(line.len()).map_err(io::Error::other)?,
        };
        self.write(line.as_bytes())?;
        self.extent.lines += 1;
        Ok(span)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(text)?;
        self.extent.length += text.len() as u64;
        self.extent.sum.add(text);
        Ok(())
    }

    /// Takes note that policies were made, whatever became of them since.
    pub(super) fn had_policies(&mut self) {
        self.extent.had_policies = true;
    }

    /// Ends it with what it holds, and puts it in place.
    pub(super) fn finish(mut self, revision: i64) -> io::Result<(File, Extent)> {
        self.write(format!("[{revision}]\n").as_bytes())?;
        self.extent.revision = revision;
        self.extent.began = self.extent.lines;
        let extent = self.extent;
        Ok((self.place()?, extent))
    }

    fn place(self) -> io::Result<File> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.extent.seal().set(&file)?;
        file.sync_all()?;
        std::fs::rename(&self.draft, &self.path)?;
        Ok(file)
    }
}

fn line(state: &State) -> String {
    let State {
        revision,
        place,
        body,
    } = state;
    let mut line = json!([revision, place.kind.name(), place.org, place.id, body]).to_string();
    line.push('\n');
    line
}
