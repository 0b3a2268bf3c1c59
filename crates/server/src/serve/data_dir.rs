//! The data directory, which one process has to itself.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;

/// The file whose lock says that the directory is in use. The lock ends with the process, however that ends.
const LOCK: &str = "lock";

/// All rights of others than the owner.
const OTHERS: u32 = 0o077;
/// Files that earlier versions left readable for others, though they hold the hashes of keys and tokens.
const PRIVATE: [&str; 6] = [
    LOCK,
    "catalogue.sqlite3",
    "catalogue.sqlite3-wal",
    "catalogue.sqlite3-shm",
    "catalogue.snapshot",
    "redis-in-use",
];

/// A data directory that this process has locked.
pub(super) struct DataDir {
    /// Keeps the lock. There is none on a file system that has no locks.
    _lock: Option<File>,
}

impl DataDir {
    /// Has all files that this process makes from now on readable and writable by nobody else, those that SQLite makes
    /// among them.
    pub(super) fn keep_files_private() {
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }

    /// Makes the directory if it is missing, and locks it.
    ///
    /// Two servers on one directory would each count rates by themselves, so that twice as much would be let through.
    pub(super) fn lock(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("--data-dir: {}: {error}", path.display());
        let mut directory = std::fs::DirBuilder::new();
        directory
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        keep_private(path).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path.join(LOCK)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                note_process(&mut file);
                Ok(Self { _lock: Some(file) })
            }
            Err(TryLockError::WouldBlock) => Err(format!(
                "--data-dir: {} is in use by another process{}: each needs a directory of its own",
                path.display(),
                noted_process(&mut file)
            )),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "the data directory {} can't be locked: {error}. Make sure that no other process uses it",
                    path.display()
                );
                Ok(Self { _lock: None })
            }
        }
    }
}

/// Takes from others the right to read a directory that is for this program alone, since it is empty or has its lock, and
/// what earlier versions left there. A directory that has other things in it is left as it is.
fn keep_private(path: &Path) -> std::io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & OTHERS != 0 {
        let is_own = path.join(LOCK).exists() || std::fs::read_dir(path)?.next().is_none();
        let taken = if is_own { restrict(path, 0o700) } else { Ok(()) };
        if !is_own || taken.is_err() {
            tracing::warn!(
                "the data directory {} can be entered by others (mode {:o}): make it 700",
                path.display(),
                mode & 0o777
            );
        }
    }
    for name in PRIVATE {
        match restrict(&path.join(name), 0o600) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!("{name} in the data directory may be readable by others: {error}");
            }
            _ => {}
        }
    }
    Ok(())
}

fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    let found = std::fs::metadata(path)?.permissions().mode();
    if found & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Writes down who has the lock, for people. Nothing depends on it.
fn note_process(file: &mut File) {
    let _ = file.set_len(0);
    let _ = writeln!(file, "{}", std::process::id());
}

/// Who has the lock, as far as that is known.
fn noted_process(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(32).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(id)) => format!(" (process {id})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_process_at_a_time() {
        let directory = std::env::temp_dir().join(format!("tollgate-data-dir-{}", std::process::id()));
        let first = DataDir::lock(&directory).unwrap_or_else(|error| panic!("{error}"));
        let refused = DataDir::lock(&directory).err().unwrap_or_default();
        let own = format!("is in use by another process (process {})", std::process::id());
        assert!(
            refused.starts_with("--data-dir: ") && refused.contains(&own),
            "{refused}"
        );
        drop(first);
        assert!(DataDir::lock(&directory).is_ok());
        let _ = std::fs::remove_dir_all(&directory);
    }
}
