//! A policy file as it stands: its text, or those of a directory's files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tollgate_catalog::foreign::{ForeignFile, is_envoy, read_envoy};
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::parse_policy_set;

use super::PolicyFileError;

/// The largest policy file that is read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The text of a policy file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyText {
    /// Where it was read.
    path: PathBuf,
    /// True of a directory, whose files are envoyproxy/ratelimit's.
    is_directory: bool,
    /// Each file's name and text.
    files: Vec<(String, String)>,
}

impl PolicyText {
    /// Reads a file, or all files of a directory.
    pub fn read(path: &Path) -> Result<Self, PolicyFileError> {
        Ok(Self {
            path: path.to_owned(),
            is_directory: path.is_dir(),
            files: read_texts(path)?,
        })
    }

    /// The policies in it. A directory, and a file with a domain, are envoyproxy/ratelimit's.
    pub fn parse(&self) -> Result<PolicySet, PolicyFileError> {
        match self.files.as_slice() {
            [(_, text)] if !self.is_directory && !is_envoy(text) => parse_policy_set(text)
                .map_err(|problems| PolicyFileError::Invalid(self.path.clone(), problems)),
            texts => {
                let files = texts.iter().map(|(name, text)| ForeignFile { name, text });
                let files: Vec<ForeignFile<'_>> = files.collect();
                let imported = read_envoy(&files).map_err(PolicyFileError::Foreign)?;
                Ok(PolicySet {
                    policies: imported.policies,
                    ..PolicySet::default()
                })
            }
        }
    }
}

/// Reads a file, or all files of a directory, by name.
pub fn read_texts(path: &Path) -> Result<Vec<(String, String)>, PolicyFileError> {
    let unreadable = |error| PolicyFileError::Unreadable(path.to_owned(), error);
    let paths = files_of(path).map_err(unreadable)?;
    // More likely a mount that is gone than a wish for no limits at all.
    if paths.is_empty() {
        let nothing = std::io::Error::other("there is no YAML file in the directory");
        return Err(unreadable(nothing));
    }
    let texts = paths.iter();
    texts
        .map(|path| Ok((path.display().to_string(), read_text(path)?)))
        .collect()
}

/// The YAML files of a directory, in the order of their names, or the file. Hidden ones are those of editors and mounts.
pub(super) fn files_of(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if yaml && !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_text(path: &Path) -> Result<String, PolicyFileError> {
    let fail = |error| PolicyFileError::Unreadable(path.to_owned(), error);
    let size = std::fs::metadata(path).map_err(fail)?.len();
    if size > MAX_FILE_BYTES {
        return Err(fail(std::io::Error::other("the file is larger than 1 GiB")));
    }
    std::fs::read_to_string(path).map_err(fail)
}
