//! The directory in which a journal is settled, noted in its head: once that is gone for good, so is its use.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{HEAD, Journal, MAGIC, WORD};

/// The words of the head that a home is noted in: its device, how many bytes its path has, and these.
const DEVICE: usize = 5;
const LENGTH: usize = 6;
const PATH: usize = 8;
const MAX_PATH_BYTES: usize = (HEAD - PATH) * WORD;

/// A directory, and the file system that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    directory: PathBuf,
    device: u64,
}

impl Home {
    /// A directory that is there.
    pub fn of(directory: &Path) -> Result<Self> {
        let directory = directory.canonicalize()?;
        let device = std::fs::metadata(&directory)?.dev();
        Ok(Self { directory, device })
    }

    /// True if the directory is gone from its file system. One that only is not mounted is not: what is there in its
    /// place is on another device.
    pub fn is_gone(&self) -> bool {
        match std::fs::symlink_metadata(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            _ => return false,
        }
        let mut above = self.directory.ancestors().skip(1);
        let there = above.find_map(|directory| std::fs::metadata(directory).ok());
        there.is_some_and(|there| there.dev() == self.device)
    }
}

impl Journal {
    /// Notes where the journal is settled. A path that is too long is not noted.
    pub fn note_home(&self, home: &Home) {
        let path = home.directory.as_os_str().as_bytes();
        if path.len() > MAX_PATH_BYTES {
            return;
        }
        for (place, part) in path.chunks(WORD).enumerate() {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            self.set(PATH + place, u64::from_ne_bytes(word));
        }
        self.set(DEVICE, home.device);
        // Last: before it, there is no home.
        self.set(LENGTH, path.len() as u64);
    }
}

/// A journal of a run that has ended, held for as long as this is there.
#[derive(Debug)]
pub struct Ended {
    /// Where it is settled, if that is known.
    pub home: Option<Home>,
    _file: File,
}

impl Ended {
    /// Reads the head of a journal; nothing if its run has not ended, or another user began it.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let no_links = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new().read(true).custom_flags(no_links).open(path)?;
        let about = file.metadata()?;
        let own = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
        if !own || file.try_lock().is_err() {
            return Ok(None);
        }
        let mut bytes = vec![0; HEAD * WORD];
        file.read_exact(&mut bytes)?;
        let word = |place: usize| {
            bytes
                .as_chunks::<WORD>()
                .0
                .get(place)
                .copied()
                .unwrap_or_default()
        };
        let number = |place: usize| u64::from_ne_bytes(word(place));
        if number(0) != MAGIC {
            return Ok(None);
        }
        let length = usize::try_from(number(LENGTH)).unwrap_or(usize::MAX);
        let path = bytes[PATH * WORD..].get(..length).filter(|path| !path.is_empty());
        let home = path.map(|path| Home {
            directory: OsString::from_vec(path.to_vec()).into(),
            device: number(DEVICE),
        });
        Ok(Some(Self { home, _file: file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tollgate-home-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{error}"));
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_is_gone_only_from_its_own_file_system() {
        let scratch = Scratch::new("gone");
        let inner = scratch.0.join("data");
        std::fs::create_dir(&inner).unwrap_or_else(|error| panic!("{error}"));
        let home = Home::of(&inner).unwrap_or_else(|error| panic!("{error}"));
        assert!(!home.is_gone());
        std::fs::remove_dir(&inner).unwrap_or_else(|error| panic!("{error}"));
        assert!(home.is_gone());
        let unmounted = Home {
            device: home.device + 1,
            ..home
        };
        assert!(!unmounted.is_gone());
    }

    #[test]
    fn a_home_is_read_once_its_run_has_ended() {
        let scratch = Scratch::new("read");
        let path = scratch.0.join("a.journal");
        let journal = Journal::create(&path, 7).unwrap_or_else(|error| panic!("{error}"));
        let home = Home::of(&scratch.0).unwrap_or_else(|error| panic!("{error}"));
        journal.note_home(&home);
        assert!(matches!(Ended::read(&path), Ok(None)), "it is in use");
        drop(journal);
        let ended = Ended::read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ended.and_then(|ended| ended.home), Some(home));
    }
}
