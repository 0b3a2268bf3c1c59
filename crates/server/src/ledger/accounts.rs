//! All accounts of this node, and those that are due.

use std::collections::HashMap;

use tokio::sync::oneshot;
use tollgate_core::{CounterKey, Timestamp};

use super::account::Account;
use super::wait::Answer;

/// An account and who waits for it.
pub(super) struct Held {
    pub(super) account: Account,
    pub(super) waiting: Vec<oneshot::Sender<Answer>>,
    /// It is in the list of those that are due.
    due: bool,
}

/// The accounts, in no order. They can be gone through in slices.
#[derive(Default)]
pub(super) struct Accounts {
    held: Vec<Held>,
    places: HashMap<CounterKey, usize>,
    due: Vec<CounterKey>,
    cursor: usize,
}

impl Accounts {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn get(&mut self, key: CounterKey) -> Option<&mut Held> {
        let place = *self.places.get(&key)?;
        self.held.get_mut(place)
    }

    /// The account of a counter, made if there is none.
    pub(super) fn entry(&mut self, key: CounterKey, make: impl FnOnce() -> Account) -> &mut Held {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.held.push(Held {
                account: make(),
                waiting: Vec::new(),
                due: false,
            });
            self.held.len() - 1
        });
        &mut self.held[place]
    }

    /// Notes that the ledger is to be asked about an account soon.
    pub(super) fn is_due(&mut self, key: CounterKey) {
        if let Some(held) = self.get(key)
            && !std::mem::replace(&mut held.due, true)
        {
            self.due.push(key);
        }
    }

    /// Notes that all accounts of an org are due, and gives one of them.
    pub(super) fn due_of(&mut self, org: &str) -> Option<CounterKey> {
        let of_org = self.held.iter().filter(|held| held.account.subject.org == org);
        let keys: Vec<CounterKey> = of_org.map(|held| held.account.subject.key).collect();
        for key in &keys {
            self.is_due(*key);
        }
        keys.first().copied()
    }

    /// Takes out up to so many that are due.
    pub(super) fn take_due(&mut self, most: usize) -> Vec<CounterKey> {
        let first = self.due.len().saturating_sub(most);
        let due = self.due.split_off(first);
        for key in &due {
            if let Some(held) = self.get(*key) {
                held.due = false;
            }
        }
        due
    }

    pub(super) fn all(&self) -> Vec<CounterKey> {
        self.places.keys().copied().collect()
    }

    /// The next slice of all.
    pub(super) fn slice(&mut self, most: usize) -> Vec<CounterKey> {
        if self.cursor >= self.held.len() {
            self.cursor = 0;
        }
        let slice = self.held[self.cursor..].iter().take(most);
        let slice: Vec<CounterKey> = slice.map(|held| held.account.subject.key).collect();
        self.cursor += slice.len();
        slice
    }

    /// Where the counter lives of an account whose period is over and that nobody uses.
    pub(super) fn unused(&self, key: CounterKey, now: Timestamp) -> Option<u64> {
        let held = &self.held[*self.places.get(&key)?];
        let idle = !held.due && held.waiting.is_empty() && held.account.is_forgettable(now);
        idle.then_some(held.account.subject.home)
    }

    /// Forgets an account.
    pub(super) fn forget(&mut self, key: CounterKey) {
        let Some(place) = self.places.remove(&key) else {
            return;
        };
        self.held.swap_remove(place);
        if let Some(moved) = self.held.get(place) {
            self.places.insert(moved.account.subject.key, place);
        }
    }
}
