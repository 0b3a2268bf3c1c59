//! All that a database holds, as a node finds it when it starts: what is common, the orgs, and the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollgate_catalog::model::OrgRecord;
use tollgate_catalog::repository::{Entry, Kind, Place, Repository};
use tollgate_catalog::snapshot::{ApiKey, Snapshot, Span};
use tollgate_core::{IdHash, KeySeed};

use super::archive::{Index, OrgsOnDisk, org_of};
use super::contents::Contents;
use super::copy::{CopyError, Filed, copy};
use super::disk::{Disk, Extent};
use super::left_out::LeftOut;
use super::{CatalogueError, FileSet};

/// How many entries are read at once.
const PAGE: i64 = 2_000;
/// What all orgs have in common.
const COMMON: [Kind; 5] = [
    Kind::Tier,
    Kind::Policy,
    Kind::EndpointClasses,
    Kind::Rollout,
    Kind::Eras,
];

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
        let (mut keys, mut filed) = (Vec::new(), Vec::new());
        // What once held policies is not taken for a new one because they were deleted.
        let had_policies = !set.given && repository.has_had_policies().await?;
        let common = Contents {
            has_had_policies: had_policies,
            ..common(repository).await?
        };
        let named = Naming::of(&common, set, seed);
        let (mut contents, mut left_out) = (Contents::default(), LeftOut::default());
        contents.has_had_policies = had_policies;
        let known = |org: Filed<'_>| {
            if org.known || set.knows(org.org) {
                filed.push((seed.id(org.org.as_bytes()), org.span));
            }
        };
        let of_org = |entry: &Entry, known| {
            let is_there = known || org_of(&entry.place).is_some_and(|org| set.knows(org));
            left_out.note_entry(entry, is_there, &named.0);
        };
        let copied = copy(repository, disk, known, of_org, |entry| {
            keys.extend(contents.take(&entry.place, Some(entry)));
        });
        let copied = copied.await?;
        contents.revision = copied.extent.revision;
        contents.left_out.extend(&left_out);
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
        contents.has_had_policies |= index.had_policies;
        let named = Naming::of(&contents, set, seed);
        let (mut filed, mut records) = (Vec::new(), Vec::new());
        for (org, spans) in index.orgs {
            let Ok(held) = archive.held(&spans) else { continue };
            let is_there = held.org.is_some() || set.knows(&org);
            contents.left_out.note_names(&org, &held, is_there, &named.0);
            // One that is gone, or of which only what needs an org is left, has no record.
            match held.merged(&org, set) {
                Some(_) if spans.len() == 1 => filed.push((seed.id(org.as_bytes()), spans[0])),
                Some(record) => records.push(record),
                None => {}
            }
        }
        Self {
            contents,
            archive,
            filed,
            held: records,
            keys,
            extent: (!index.torn).then_some(index.extent),
        }
    }
}

/// A snapshot of what all orgs have in common, by which it is looked up what they may name.
struct Naming(Snapshot);

impl Naming {
    fn of(contents: &Contents, file: &FileSet, seed: KeySeed) -> Self {
        let mut set = contents.set_with(file);
        set.overrides.clear();
        let tiers: BTreeSet<String> = set.orgs.drain(..).map(|org| org.tier).collect();
        set.tiers.extend(tiers);
        let (set, _) = set.fitting(seed);
        Self(Snapshot::compile_noting(&set, seed, None).0)
    }
}

/// Reads what all orgs have in common.
async fn common(repository: &Repository) -> Result<Contents, CatalogueError> {
    let mut contents = Contents::default();
    for kind in COMMON {
        let mut after = String::new();
        loop {
            let page = repository.list(kind, "", &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.place.id);
            for entry in &page {
                contents.take(&entry.place, Some(entry));
            }
        }
    }
    Ok(contents)
}

impl FileSet {
    /// Whether the policy file knows an org.
    pub fn knows(&self, org: &str) -> bool {
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
