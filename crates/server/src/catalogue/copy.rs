//! Copying the database to the file on disk, a page at a time, so that no catalogue is too large for it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use tollgate_catalog::repository::{Entry, Kind, Place, Repository, RepositoryError};
use tollgate_catalog::snapshot::Span;

use super::archive::org_of;
use super::disk::{Disk, Extent, NewFile, State};

/// How many entries are read at once.
const PAGE: i64 = 5_000;

/// What was copied.
pub(super) struct Copied {
    pub(super) file: File,
    pub(super) extent: Extent,
}

/// An org that was copied.
pub(super) struct Filed<'a> {
    pub(super) org: &'a str,
    pub(super) span: Span,
    /// There is an entry of the org itself, and not only of what needs an org to mean anything.
    pub(super) known: bool,
}

/// Why nothing was copied.
#[derive(Debug)]
pub(super) enum CopyError {
    Repository(RepositoryError),
    File(io::Error),
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repository(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl From<RepositoryError> for CopyError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(error)
    }
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Copies all entries. Told on the way are the orgs, their entries and whether there is an entry of the org itself, and
/// the entries that are of no org's record.
pub(super) async fn copy(
    repository: &Repository,
    disk: &Disk,
    mut filed: impl FnMut(Filed<'_>) + Send,
    mut of_org: impl FnMut(&Entry, bool) + Send,
    mut shown: impl FnMut(&Entry) + Send,
) -> Result<Copied, CopyError> {
    // Read first: what is written meanwhile is followed up.
    let revision = repository.head().await?;
    let had_policies = repository.has_had_policies().await?;
    let mut file = disk.renew().await?;
    if had_policies {
        file.had_policies();
    }
    let of_an_org = [Kind::Org, Kind::Override, Kind::User, Kind::Reset];
    let mut cursors = of_an_org.map(Cursor::at_start_of);
    loop {
        let mut next: Option<String> = None;
        for cursor in &mut cursors {
            cursor.fill(repository).await?;
            if let Some(org) = cursor.org()
                && next.as_deref().is_none_or(|least| org < least)
            {
                next = Some(org.to_owned());
            }
        }
        let Some(org) = next else { break };
        let (mut span, mut known): (Option<Span>, bool) = (None, false);
        for cursor in &mut cursors {
            known |= cursor.org() == Some(&org) && cursor.kind == Kind::Org;
            while let Some(entry) = cursor.take_of(&org) {
                of_org(&entry, known);
                add(&mut file, entry, &mut span)?;
                cursor.fill(repository).await?;
            }
        }
        if let Some(span) = span {
            filed(Filed {
                org: &org,
                span,
                known,
            });
        }
    }
    for kind in Kind::ALL.into_iter().filter(|kind| !of_an_org.contains(kind)) {
        let mut cursor = Cursor::at_start_of(kind);
        loop {
            cursor.fill(repository).await?;
            let Some(entry) = cursor.page.pop_front() else {
                break;
            };
            shown(&entry);
            file.add(&State::of(entry))?;
        }
    }
    let finished = tokio::task::spawn_blocking(move || file.finish(revision)).await;
    let (file, extent) = finished.map_err(io::Error::other)??;
    Ok(Copied { file, extent })
}

/// Adds a state to those of its org, which lie side by side.
fn add(file: &mut NewFile, entry: Entry, span: &mut Option<Span>) -> io::Result<()> {
    let added = file.add(&State::of(entry))?;
    match span {
        Some(span) => {
            let bytes = span.bytes.checked_add(added.bytes);
            span.bytes = bytes.ok_or_else(|| io::Error::other("an org has more than 4 GB of overrides"))?;
        }
        None => *span = Some(added),
    }
    Ok(())
}

/// The entries of a kind in the order of their orgs and ids.
struct Cursor {
    kind: Kind,
    page: VecDeque<Entry>,
    /// The last entry that was read; `None` at the end.
    after: Option<Place>,
}

impl Cursor {
    fn at_start_of(kind: Kind) -> Self {
        // No entry has an empty id.
        let after = Place {
            kind,
            org: String::new(),
            id: String::new(),
        };
        Self {
            kind,
            page: VecDeque::new(),
            after: Some(after),
        }
    }

    /// Reads on if all that was read is used up.
    async fn fill(&mut self, repository: &Repository) -> Result<(), RepositoryError> {
        let Some(after) = self.after.as_ref().filter(|_| self.page.is_empty()) else {
            return Ok(());
        };
        let page = repository.page(Some(after), PAGE).await?;
        self.after = page.last().map(|last| last.place.clone());
        self.after = self.after.take().filter(|last| last.kind == self.kind);
        let kind = self.kind;
        self.page = page
            .into_iter()
            .filter(|entry| entry.place.kind == kind)
            .collect();
        Ok(())
    }

    fn org(&self) -> Option<&str> {
        self.page.front().and_then(|entry| org_of(&entry.place))
    }

    fn take_of(&mut self, org: &str) -> Option<Entry> {
        if self.org() == Some(org) {
            self.page.pop_front()
        } else {
            None
        }
    }
}
