//! The command line, one module for each command.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod check;
mod completions;
mod explain;
mod import;
mod output;
mod plan;
mod simulate;
mod validate;

use std::path::Path;

use tempfile::TempDir;

/// A directory of files for commands to read.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file that can be written");
        path
    }

    fn path(&self, name: &str) -> String {
        let path: &Path = &self.0.path().join(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}
