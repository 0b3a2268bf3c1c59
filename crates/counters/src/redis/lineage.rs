//! Which owners are one and the same: servers whose replication id has changed while they kept what they hold.
//!
//! A primary gets another replication id when its first replica comes, and when its backlog goes an hour after its last
//! one left. Sentinels have the old id, and so do calls of nodes that have not looked since. Whoever has seen the change
//! knows that it is the same server ([`Lineage::note`]) and tells the others ([`Lineage::hear`]).
//!
//! Why it is the same: between two looks less than a second apart, the process is the same and at the second one remembers
//! no other primary that it has followed (`master_replid2`). It would: a replica that is promoted remembers whom it
//! followed until its backlog goes, and that is at least a second later (`repl-backlog-ttl`).

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::link::Owner;

/// How many changes are remembered.
const MOST: usize = 64;

/// Changes of replication ids without a loss.
#[derive(Debug, Default)]
pub(super) struct Lineage(Mutex<VecDeque<(Owner, Owner)>>);

impl Lineage {
    /// Takes note that one owner has become another and lost nothing. True if that is news.
    pub(super) fn note(&self, from: &Owner, to: &Owner) -> bool {
        let mut changes = self.0.lock();
        let change = (from.clone(), to.clone());
        if from == to || !from.is_same_run(to) || changes.contains(&change) {
            return false;
        }
        if changes.len() == MOST {
            changes.pop_front();
        }
        changes.push_back(change);
        true
    }

    /// Whether two owners are one.
    pub(super) fn is_same(&self, one: &Owner, other: &Owner) -> bool {
        if one == other {
            return true;
        }
        let changes = self.0.lock();
        let (mut known, mut next) = (vec![one], 0);
        while next < known.len() {
            for (from, to) in changes.iter() {
                for (here, there) in [(from, to), (to, from)] {
                    if here == known[next] && !known.contains(&there) {
                        known.push(there);
                    }
                }
            }
            next += 1;
        }
        known.contains(&other)
    }

    /// All changes, to be told to others.
    pub(super) fn told(&self) -> Vec<(Owner, Owner)> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_one_along_changes_of_one_run() {
        let lineage = Lineage::default();
        let owner = |run: &str, id: &str| Owner::new(run, id);
        let [a, b, c] = ["1", "2", "3"].map(|id| owner("p", id));
        assert!(lineage.is_same(&a, &a) && !lineage.is_same(&a, &b));
        assert!(lineage.note(&a, &b) && !lineage.note(&a, &b));
        assert!(lineage.note(&b, &c));
        assert!(lineage.is_same(&a, &c) && lineage.is_same(&c, &a));
        assert!(
            !lineage.note(&c, &owner("q", "4")),
            "another run is another server"
        );
        assert!(!lineage.is_same(&c, &owner("q", "4")));
        for id in 0..2 * MOST {
            lineage.note(&owner("q", &id.to_string()), &owner("q", &(id + 1).to_string()));
        }
        assert_eq!(lineage.told().len(), MOST);
    }
}
