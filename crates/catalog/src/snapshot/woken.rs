//! Orgs that were asked for since a table was made, compiled by whoever asked first.
//!
//! A tree that only grows and in which nothing moves, so that it takes no lock, and what was found in it can be held on
//! to. It costs more steps than the table; whoever makes the next table takes what is here into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_core::IdHash;

use super::org::OrgEntry;

const BRANCHES: usize = 8;

type Branches = [OnceLock<Box<Node>>; BRANCHES];

#[derive(Default)]
pub(super) struct Woken {
    branches: Branches,
    count: AtomicUsize,
}

struct Node {
    hash: IdHash,
    entry: Arc<OrgEntry>,
    branches: Branches,
}

impl Woken {
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, hash: IdHash) -> Option<&OrgEntry> {
        let (mut branches, mut way) = (&self.branches, hash.short());
        while let Some(node) = branches[turn(&mut way)].get() {
            if node.hash == hash {
                return Some(&node.entry);
            }
            branches = &node.branches;
        }
        None
    }

    /// Adds an org, unless another thread was faster.
    pub(super) fn put(&self, hash: IdHash, entry: &Arc<OrgEntry>) -> &OrgEntry {
        let (mut branches, mut way) = (&self.branches, hash.short());
        loop {
            let node = branches[turn(&mut way)].get_or_init(|| {
                self.count.fetch_add(1, Ordering::Relaxed);
                Box::new(Node {
                    hash,
                    entry: entry.clone(),
                    branches: Branches::default(),
                })
            });
            if node.hash == hash {
                return &node.entry;
            }
            branches = &node.branches;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IdHash, &Arc<OrgEntry>)> {
        let mut ahead: Vec<&OnceLock<Box<Node>>> = self.branches.iter().collect();
        std::iter::from_fn(move || {
            loop {
                if let Some(node) = ahead.pop()?.get() {
                    ahead.extend(&node.branches);
                    return Some((node.hash, &node.entry));
                }
            }
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
fn turn(way: &mut u64) -> usize {
    let branch = *way % BRANCHES as u64;
    *way /= BRANCHES as u64;
    branch as usize
}
