//! Journals whose data directory is gone.

use std::path::Path;

use tempfile::TempDir;

use crate::common::{Launch, Server, file_of};
use crate::world::{quota, spend};

fn server(journals: &Path) -> Server {
    let policies = file_of(&[quota("org-day", 1_000, "")]);
    Server::launch(&Launch {
        policies: Some(&policies),
        environment: &[("TOLLGATE_QUOTA_JOURNAL", journals.to_str().unwrap())],
        ..Launch::default()
    })
}

/// The journals that are there, by name.
fn journals(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The journal that was not there before.
fn new(directory: &Path, before: &[String]) -> String {
    let mut added = journals(directory);
    added.retain(|name| !before.contains(name));
    assert_eq!(added.len(), 1, "{added:?}");
    added.remove(0)
}

#[test]
fn the_journal_of_a_data_directory_that_is_gone_is_removed() {
    let directory = TempDir::new().unwrap();
    let directory = directory.path();
    let running = server(directory);
    let of_running = new(directory, &[]);

    let before = journals(directory);
    let mut killed = server(directory);
    let of_killed = new(directory, &before);
    spend(&killed, "acme", 5);
    killed.end("KILL");

    let before = journals(directory);
    let mut gone = server(directory);
    let of_gone = new(directory, &before);
    spend(&gone, "acme", 5);
    gone.end("KILL");
    std::fs::remove_dir_all(gone.data("")).unwrap();
    // Neither is one of these, whatever they are called.
    std::fs::write(directory.join("tollgate-other.journal"), "not a journal").unwrap();
    std::fs::create_dir(directory.join("tollgate-directory.journal")).unwrap();

    let cleaner = server(directory);
    cleaner.logs("removed 1 journals of quotas");
    let left = journals(directory);
    assert!(!left.contains(&of_gone), "{left:?}");
    for kept in [&of_running, &of_killed] {
        assert!(left.contains(kept), "{kept}: {left:?}");
    }
    assert!(left.contains(&"tollgate-other.journal".to_owned()));
    // The killed one settles its own.
    killed.start_again();
    killed.logs("unspent units of quotas");
    drop(running);
}
