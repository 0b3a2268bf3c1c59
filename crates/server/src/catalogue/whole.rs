//! All that a database holds, as a node finds it when it starts: what is common, the orgs, and the keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_catalog::model::OrgRecord;
use tollgate_catalog::repository::{Entry, Place, Repository};
use tollgate_catalog::snapshot::{ApiKey, Span};
use tollgate_core::{IdHash, KeySeed};

use super::archive::{Index, OrgsOnDisk};
use super::contents::{Contents, matters};
use super::copy::{CopyError, Filed, copy};
use super::disk::{Disk, Extent};
use super::{CatalogueError, FileSet};

pub(super) struct Whole {
    pub(super) contents: Contents,
    pub(super) archive: Arc<OrgsOnDisk>,
    /// Where the record of each org lies, by the hash of its id.
    pub(super) filed: Vec<(IdHash, Span)>,
    /// The orgs whose states lie apart.
    pub(super) held: Vec<OrgRecord>,
    pub(super) keys: Vec<ApiKey>,
    /// How far the file on disk has come; `None` if it has to be written anew.
    pub(super) extent: Option<Extent>,
}

/// What a file on disk held, to start from while the database is away.
pub struct Kept {
    index: Index,
    file: std::fs::File,
}

impl Kept {
    /// Up to which change all is in it.
    pub fn revision(&self) -> i64 {
        self.index.extent.revision
    }
}

impl Disk {
    /// Reads the file; `None` if there is none.
    pub fn read(&self) -> std::io::Result<Option<Kept>> {
        let Some(file) = self.open()? else { return Ok(None) };
        let index = Index::of(&file)?;
        Ok(Some(Kept { index, file }))
    }
}

impl Whole {
    /// Reads the database, and leaves a copy on disk.
    pub(super) async fn read(
        repository: &Repository,
        disk: &Disk,
        set: &Arc<FileSet>,
        seed: KeySeed,
    ) -> Result<Self, CatalogueError> {
        let (mut contents, mut keys, mut filed) = (Contents::default(), Vec::new(), Vec::new());
        let mut orgs = 0;
        let known = |org: Filed<'_>| {
            orgs += 1;
            if org.known || set.knows(org.org) {
                filed.push((seed.id(org.org.as_bytes()), org.span));
            }
        };
        let copied = copy(repository, disk, known, |entry| {
            contents.in_force += usize::from(matters(entry.place.kind));
            keys.extend(contents.take(&entry.place, Some(entry)));
        });
        let copied = copied.await?;
        contents.revision = copied.extent.revision;
        // What once held policies is not taken for a new one because they were deleted.
        contents.in_force += orgs + usize::from(repository.was_used().await?);
        Ok(Self {
            contents,
            filed,
            held: Vec::new(),
            keys,
            archive: Arc::new(OrgsOnDisk::new(copied.file, set.clone())),
            extent: Some(copied.extent),
        })
    }

    /// What was kept on disk.
    pub(super) fn of_disk(kept: Kept, set: &Arc<FileSet>, seed: KeySeed) -> Self {
        let Kept { index, file } = kept;
        let archive = Arc::new(OrgsOnDisk::new(file, set.clone()));
        let mut contents = Contents {
            revision: index.extent.revision,
            in_force: index.extent.lines,
            ..Contents::default()
        };
        let mut others: BTreeMap<Place, Entry> = BTreeMap::new();
        for state in index.others {
            match state.entry() {
                Ok(entry) => drop(others.insert(entry.place.clone(), entry)),
                Err(gone) => drop(others.remove(&gone)),
            }
        }
        let keys = others.values();
        let keys = keys
            .flat_map(|entry| contents.take(&entry.place, Some(entry)))
            .collect();
        let (mut filed, mut held) = (Vec::new(), Vec::new());
        for (org, spans) in index.orgs {
            // One that is gone, or of which only what needs an org is left, has no record.
            match archive.gathered(&spans) {
                Ok(_) if spans.len() == 1 => filed.push((seed.id(org.as_bytes()), spans[0])),
                Ok(record) => held.push(record),
                Err(_) => {}
            }
        }
        Self {
            contents,
            archive,
            filed,
            held,
            keys,
            extent: (!index.torn).then_some(index.extent),
        }
    }
}

impl FileSet {
    /// Whether the policy file knows an org.
    pub(super) fn knows(&self, org: &str) -> bool {
        self.given
            && (self.set.orgs.iter().any(|known| known.id == org)
                || self.set.overrides.iter().any(|change| change.org == org))
    }

    /// Whether something in the policy file may name a tier or a policy.
    pub(super) fn mentions(&self, word: &str) -> bool {
        self.given
            && (self.set.orgs.iter().any(|org| org.tier == word)
                || self
                    .set
                    .overrides
                    .iter()
                    .any(|change| change.policy.as_deref() == Some(word)))
    }
}

impl From<CopyError> for CatalogueError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Repository(error) => Self::Repository(error),
            CopyError::File(error) => Self::Disk(error),
        }
    }
}
