//! Orgs that were asked for since a table was made, compiled by whoever asked first.
//!
//! A tree that only grows and in which nothing moves, so that it takes no lock, and what was found in it can be held on
//! to. It costs more steps than the table; whoever makes the next table takes what is here into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_core::IdHash;

use super::org::OrgEntry;
use crate::model::OrgRecord;

const BRANCHES: usize = 8;

type Branches = [OnceLock<Box<Node>>; BRANCHES];

#[derive(Default)]
pub(super) struct Woken {
    branches: Branches,
    count: AtomicUsize,
}

struct Node {
    hash: IdHash,
    org: Awake,
    branches: Branches,
}

/// An org in use.
#[derive(Clone)]
pub(super) struct Awake {
    /// What it was made from, read.
    pub(super) read: Arc<OrgRecord>,
    pub(super) entry: Arc<OrgEntry>,
}

impl Woken {
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, hash: IdHash) -> Option<&OrgEntry> {
        let (mut branches, mut way) = (&self.branches, hash.short());
        while let Some(node) = branches[turn(&mut way)].get() {
            if node.hash == hash {
                return Some(&node.org.entry);
            }
            branches = &node.branches;
        }
        None
    }

    /// Adds an org, unless another thread was faster.
    pub(super) fn put(&self, hash: IdHash, org: &Awake) -> &OrgEntry {
        let (mut branches, mut way) = (&self.branches, hash.short());
        loop {
            let node = branches[turn(&mut way)].get_or_init(|| {
                self.count.fetch_add(1, Ordering::Relaxed);
                Box::new(Node {
                    hash,
                    org: org.clone(),
                    branches: Branches::default(),
                })
            });
            if node.hash == hash {
                return &node.org.entry;
            }
            branches = &node.branches;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IdHash, &Awake)> {
        let mut ahead: Vec<&OnceLock<Box<Node>>> = self.branches.iter().collect();
        std::iter::from_fn(move || {
            loop {
                if let Some(node) = ahead.pop()?.get() {
                    ahead.extend(&node.branches);
                    return Some((node.hash, &node.org));
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
