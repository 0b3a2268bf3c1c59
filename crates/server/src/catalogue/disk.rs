//! The catalogue as this node last saw it, on disk: what a node starts from when its database is away.
//!
//! A file of lines, one JSON list each: revision, kind, org, id and body of an entry, or a revision alone, which
//! says that all up to it is there. It begins with all there was, later states are appended, and once those have
//! become more than it began with it is written anew. A node that is killed while it appends leaves a last line that
//! is not whole, or no revision after it; what is missing is read again from the journal.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::watch;
use tollgate_catalog::repository::{Entry, Kind, Place, Repository, RepositoryError};

use crate::serve::stopped;

/// How many appended lines are nothing to tidy up yet.
const FEW: usize = 10_000;
const PAGE: i64 = 2_000;

/// What a file held.
#[derive(Debug, Default)]
pub struct Kept {
    /// Up to which change all is in it.
    pub revision: i64,
    /// The entries.
    pub entries: BTreeMap<Place, Entry>,
    lines: usize,
    /// Its last line is not whole.
    torn: bool,
}

/// The file.
#[derive(Debug, Clone)]
pub struct Disk(PathBuf);

/// A state of an entry: what it is since a revision, or that it is gone.
type State = (i64, Place, Option<Entry>);

impl Disk {
    /// The file of a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("catalogue.snapshot"))
    }

    /// Reads the file; `None` if there is none.
    pub fn read(&self) -> io::Result<Option<Kept>> {
        let file = match std::fs::File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut kept = Kept::default();
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            if !line.ends_with('\n') {
                kept.torn = true;
                break;
            }
            kept.take(&line).ok_or_else(|| {
                let place = format!("{}:{}: not a state of an entry", self.0.display(), kept.lines + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            })?;
            line.clear();
        }
        Ok(Some(kept))
    }

    /// Keeps the file up to date with what is in force, until told to stop.
    pub(super) async fn keep(
        self,
        repository: Repository,
        mut in_force: watch::Receiver<i64>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut kept = self.known();
        loop {
            let wanted = *in_force.borrow_and_update();
            if kept.is_none_or(|(revision, _, _)| revision != wanted) {
                match self.bring_up_to_date(&repository, kept, wanted).await {
                    Ok(now) => kept = Some(now),
                    Err(error) => tracing::warn!("the catalogue was not kept on disk: {error}"),
                }
            }
            tokio::select! {
                changed = in_force.changed() => if changed.is_err() { return },
                () = stopped(&mut stop) => return,
            }
        }
    }

    /// What the file is at: its revision, how many lines it has, and with how many it began.
    fn known(&self) -> Option<(i64, usize, usize)> {
        // What is appended to half a line would be lost with it, so such a file is written anew.
        let kept = self.read().ok().flatten().filter(|kept| !kept.torn)?;
        Some((kept.revision, kept.lines, kept.entries.len()))
    }

    async fn bring_up_to_date(
        &self,
        repository: &Repository,
        kept: Option<(i64, usize, usize)>,
        wanted: i64,
    ) -> Result<(i64, usize, usize), KeepError> {
        if let Some((revision, lines, began)) = kept.filter(|(revision, ..)| *revision < wanted)
            && lines < began * 2 + FEW
        {
            let (last, states) = changed_since(repository, revision).await?;
            let count = states.len();
            self.write(states, last, true).await?;
            return Ok((last, lines + count, began));
        }
        let (revision, states) = everything(repository).await?;
        let count = states.len();
        self.write(states, revision, false).await?;
        Ok((revision, count, count))
    }

    /// Appends to the file, or puts a new one in its place.
    async fn write(&self, states: Vec<State>, complete_to: i64, append: bool) -> io::Result<()> {
        let path = self.0.clone();
        let written = tokio::task::spawn_blocking(move || {
            let target = if append {
                path.clone()
            } else {
                path.with_extension("new")
            };
            let mut options = std::fs::OpenOptions::new();
            // It holds the hashes of keys and tokens.
            options.create(true).mode(0o600);
            let file = if append {
                options.append(true).open(&target)?
            } else {
                options.write(true).truncate(true).open(&target)?
            };
            let mut out = BufWriter::new(file);
            for (revision, place, entry) in states {
                let body = entry.map(|entry| entry.body);
                let state = json!([revision, place.kind.name(), place.org, place.id, body]);
                writeln!(out, "{state}")?;
            }
            writeln!(out, "[{complete_to}]")?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            if append {
                return Ok(());
            }
            file.sync_all()?;
            std::fs::rename(&target, &path)
        });
        written.await.map_err(io::Error::other)?
    }
}

impl Kept {
    /// Takes a line; `None` if it is not one.
    fn take(&mut self, line: &str) -> Option<()> {
        self.lines += 1;
        let line: Value = serde_json::from_str(line).ok()?;
        match line.as_array()?.as_slice() {
            [revision] => self.revision = revision.as_i64()?,
            [revision, kind, org, id, body] => {
                let place = Place {
                    kind: Kind::parse(kind.as_str()?)?,
                    org: org.as_str()?.to_owned(),
                    id: id.as_str()?.to_owned(),
                };
                match body.as_str() {
                    Some(body) => drop(self.entries.insert(
                        place.clone(),
                        Entry {
                            place,
                            body: body.to_owned(),
                            revision: revision.as_i64()?,
                        },
                    )),
                    None => drop(self.entries.remove(&place)),
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[derive(Debug)]
enum KeepError {
    Repository(RepositoryError),
    File(io::Error),
}

impl std::fmt::Display for KeepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repository(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl From<RepositoryError> for KeepError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(error)
    }
}

impl From<io::Error> for KeepError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// The present states of all entries that were changed after a revision. An entry may be newer than its row: then
/// its own row comes later, and finds it the same.
async fn changed_since(
    repository: &Repository,
    mut revision: i64,
) -> Result<(i64, Vec<State>), RepositoryError> {
    let mut states = Vec::new();
    loop {
        let rows = repository.journal(revision, PAGE).await?;
        let Some(last) = rows.last() else {
            return Ok((revision, states));
        };
        revision = last.revision;
        for row in rows {
            let entry = repository.get(&row.place).await?;
            let revision = entry.as_ref().map_or(row.revision, |entry| entry.revision);
            states.push((revision, row.place, entry));
        }
    }
}

/// All entries. What is written meanwhile is in the journal after the revision.
async fn everything(repository: &Repository) -> Result<(i64, Vec<State>), RepositoryError> {
    let revision = repository.head().await?;
    let mut states = Vec::new();
    let mut after: Option<Place> = None;
    loop {
        let page = repository.page(after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else {
            return Ok((revision, states));
        };
        after = Some(last.place.clone());
        states.extend(page.into_iter().map(|entry| {
            let place = entry.place.clone();
            (entry.revision, place, Some(entry))
        }));
    }
}
