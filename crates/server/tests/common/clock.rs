//! A clock that a test moves, and processes that go by it.
//!
//! libfaketime has the processes read a file with every look at the clock: how far it is ahead of the machine's. Their
//! monotonic clocks are real, so timeouts and intervals are, too.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::{Launch, Server};

/// The variant whose threads take turns, so that none reads half of a file's text.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A clock of its own, in milliseconds of Unix time.
pub struct Clock {
    dir: TempDir,
    ahead: Cell<i64>,
}

impl Clock {
    /// A clock that shows this time, and runs.
    pub fn at(time: i64) -> Self {
        let clock = Self {
            dir: TempDir::new().unwrap(),
            ahead: Cell::new(0),
        };
        clock.set(time);
        clock
    }

    /// Sets the clock. When this returns every thread sees it.
    pub fn set(&self, time: i64) {
        self.ahead.set(time - machine());
        let next = self.dir.path().join("next");
        // With three digits a double is exact enough for centuries.
        let (sign, ahead) = (
            if self.ahead.get() < 0 { '-' } else { '+' },
            self.ahead.get().abs(),
        );
        std::fs::write(&next, format!("{sign}{}.{:03}\n", ahead / 1_000, ahead % 1_000)).unwrap();
        std::fs::rename(next, self.file()).unwrap();
        // A server counts for a millisecond by itself before it asks the system again.
        pause(Duration::from_millis(5));
    }

    /// What the clock shows.
    pub fn now(&self) -> i64 {
        machine() + self.ahead.get()
    }

    /// Waits until the clock shows this time.
    pub fn wait_until(&self, time: i64) {
        while let Ok(rest @ 1..) = u64::try_from(time - self.now()) {
            pause(Duration::from_millis(rest));
        }
    }

    /// Has a process go by this clock.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            // Redis's allocator looks at the clock while libfaketime starts, which then gives up: the C library's does not.
            ("LD_PRELOAD", format!("{}:libc.so.6", library().display())),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// A server that goes by this clock.
    pub fn serve(&self, policies: &str, flags: &[&str]) -> Server {
        let environment = self.environment();
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Server::launch(&Launch {
            policies: Some(policies),
            flags,
            environment: &environment,
            ..Launch::default()
        })
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("clock")
    }
}

/// Lets time pass: waits for what nobody sends.
pub fn pause(time: Duration) {
    let (_silent, pause) = std::sync::mpsc::channel::<()>();
    let _ = pause.recv_timeout(time);
}

fn machine() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the machine's clock is what the moved one is told by"
    )]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Debian has it in a directory that the architecture names.
fn library() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut libraries = directories.map(|directory| directory.path().join(LIBRARY));
    let library = libraries.find(|library| library.exists());
    library.expect("libfaketime is not installed; ./test installs it")
}
