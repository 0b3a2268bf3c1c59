//! Where the policy set comes from: a file, or a directory of envoyproxy/ratelimit's, watched for changes; or the
//! demonstration set.

mod applied;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_catalog::document::Problems;
use tollgate_catalog::foreign::Unread;
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::parse_policy_set;

use crate::catalogue::{Catalogue, CatalogueError};
use crate::metrics::Metrics;
use crate::serve::stopped;

pub use applied::Applied;
pub use text::{PolicyText, read_texts};

use text::files_of;

/// The set used when no file is given.
pub const DEMONSTRATION: &str = include_str!("demonstration.yaml");

/// How often the file is looked at. Polling sees what editors, mounts and symlink swaps do alike.
const POLL: Duration = Duration::from_millis(250);

/// Why a policy file can't be used.
#[derive(Debug)]
pub enum PolicyFileError {
    /// It can't be read.
    Unreadable(PathBuf, std::io::Error),
    /// It is not a policy file.
    Invalid(PathBuf, Problems),
    /// Some of another limiter's files are not what they should be.
    Foreign(Unread),
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Invalid(path, problems) => write_problems(f, &path.display().to_string(), problems),
            Self::Foreign(Unread(files)) => {
                for (index, (name, problems)) in files.iter().enumerate() {
                    if index > 0 {
                        writeln!(f)?;
                    }
                    write_problems(f, name, problems)?;
                }
                Ok(())
            }
        }
    }
}

fn write_problems(f: &mut fmt::Formatter<'_>, file: &str, problems: &Problems) -> fmt::Result {
    for (index, problem) in problems.0.iter().enumerate() {
        if index > 0 {
            writeln!(f)?;
        }
        // path:line: the form in which editors and terminals make places clickable.
        write!(f, "{file}:{}: ", problem.line)?;
        if !problem.field.is_empty() {
            write!(f, "{}: ", problem.field)?;
        }
        f.write_str(&problem.message)?;
    }
    Ok(())
}

impl std::error::Error for PolicyFileError {}

/// What became of the policy file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is in force.
    InForce,
    /// Something is wrong with it: the last good one is in force.
    Refused,
    /// It is good, and comes into force when the catalogue's database answers.
    Waiting,
}

impl Standing {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InForce => "inForce",
            Self::Refused => "refused",
            Self::Waiting => "waiting",
        }
    }
}

/// Reads a policy file. A directory, and a file with a domain, are envoyproxy/ratelimit's.
pub fn read_file(path: &Path) -> Result<PolicySet, PolicyFileError> {
    PolicyText::read(path)?.parse()
}

/// Reads a policy file that has changed. What would wait for somebody to write, such as a pipe, is not one.
fn read_again(path: &Path) -> Result<(PolicyText, PolicySet), PolicyFileError> {
    let unreadable = |error| PolicyFileError::Unreadable(path.to_owned(), error);
    let kind = std::fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(unreadable(std::io::Error::other(
            "it is neither a file nor a directory",
        )));
    }
    let text = PolicyText::read(path)?;
    let set = text.parse()?;
    Ok((text, set))
}

/// Reads the file, or the demonstration set without one.
pub fn load(path: Option<&Path>) -> Result<PolicySet, PolicyFileError> {
    match path {
        Some(path) => read_file(path),
        None => demonstration(),
    }
}

/// The set used when no file is given.
pub fn demonstration() -> Result<PolicySet, PolicyFileError> {
    parse_policy_set(DEMONSTRATION)
        .map_err(|problems| PolicyFileError::Invalid(PathBuf::from("demonstration.yaml"), problems))
}

/// Applies the file again whenever it is no longer what was `seen`, or somebody has it read, all or nothing, until
/// `stop` turns true. One that needs the catalogue's database, which is away, is applied when that is back.
pub async fn watch(
    path: PathBuf,
    mut seen: Option<Vec<Stamp>>,
    applied: Applied,
    catalogue: Arc<Catalogue>,
    metrics: Arc<Metrics>,
    mut reread: watch::Receiver<()>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(POLL);
    let mut last = seen.clone();
    let mut standing = Standing::InForce;
    loop {
        let wanted = tokio::select! {
            _ = ticks.tick() => false,
            Ok(()) = reread.changed() => true,
            () = stopped(&mut stop) => return,
        };
        let now = stamps(&path);
        // Only what has stayed the same for a while is read: the first half of a file that is being written
        // may well be a valid one.
        let settled = now == last;
        last.clone_from(&now);
        let again = standing == Standing::Waiting && !metrics.is_catalogue_away();
        if !wanted && (!settled || (now == seen && !again)) {
            continue;
        }
        let told = now == seen && !wanted;
        seen = now;
        // Reading a large file must not hold the runtime up.
        let reading = path.clone();
        let read = tokio::task::spawn_blocking(move || read_again(&reading)).await;
        let Ok(read) = read else { continue };
        standing = match reload(&path, read, &catalogue, &applied).await {
            Ok(()) => {
                tracing::info!(file = %path.display(), "policies reloaded");
                Standing::InForce
            }
            Err((standing, _)) if told && standing == Standing::Waiting => standing,
            Err((standing, error)) => {
                metrics.reload_failed();
                let until = match standing {
                    Standing::Waiting => " until the catalogue's database answers",
                    _ => "",
                };
                tracing::error!("policies not reloaded, the last good ones stay in force{until}: {error}");
                standing
            }
        };
        metrics.policy_file(standing);
    }
}

/// Puts a file in force and notes that in the data directory, or says why not, and whether that may change by itself.
async fn reload(
    path: &Path,
    read: Result<(PolicyText, PolicySet), PolicyFileError>,
    catalogue: &Catalogue,
    applied: &Applied,
) -> Result<(), (Standing, String)> {
    let (text, set) = read.map_err(|error| (Standing::Refused, error.to_string()))?;
    let replaced = catalogue.replace_file(set).await;
    replaced.map_err(|error| match error {
        CatalogueError::Problems(problems) => {
            let problems = PolicyFileError::Invalid(path.to_owned(), problems);
            (Standing::Refused, problems.to_string())
        }
        CatalogueError::Repository(error) => (Standing::Waiting, error.to_string()),
        error @ CatalogueError::Disk(_) => (Standing::Refused, error.to_string()),
    })?;
    applied.note(text, &catalogue.file());
    Ok(())
}

/// What tells one state of a file from another: its time, its size, and which file it is.
pub type Stamp = (std::time::SystemTime, u64, u64);

/// A file's present state; taken before it is read, so that no change in between goes unseen.
pub fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;

    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// The same of the policy file, or of all files of a directory.
pub fn stamps(path: &Path) -> Option<Vec<Stamp>> {
    let files = files_of(path).ok()?;
    files.iter().map(|file| stamp(file)).collect()
}
