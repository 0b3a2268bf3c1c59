//! How many requests of each home wait for the store, so that one org can't have all the room there is to wait in.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// Requests of one home that may wait, unless told otherwise.
const MOST: usize = 1_024;
const SHARDS: u64 = 64;

/// Those who wait.
pub(super) struct Crowd {
    most: AtomicUsize,
    turned_away: AtomicU64,
    homes: Vec<Mutex<HashMap<u64, usize>>>,
}

/// A place to wait in, until it is dropped.
pub(super) struct Place {
    crowd: Arc<Crowd>,
    home: u64,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self {
            most: AtomicUsize::new(MOST),
            turned_away: AtomicU64::new(0),
            homes: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect(),
        }
    }

    /// Says how many of one home may wait.
    pub(super) fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many found no place.
    pub(super) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// A place for a request of a home, if there is one.
    pub(super) fn enter(self: &Arc<Self>, home: u64) -> Option<Place> {
        let mut homes = self.shard(home).lock();
        let waiting = homes.entry(home).or_default();
        if *waiting >= self.most.load(Ordering::Relaxed) {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *waiting += 1;
        drop(homes);
        Some(Place {
            crowd: self.clone(),
            home,
        })
    }

    fn shard(&self, home: u64) -> &Mutex<HashMap<u64, usize>> {
        // The upper bits choose a shard of the node, the lower ones of this.
        &self.homes[usize::try_from(home % SHARDS).unwrap_or(0)]
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut homes = self.crowd.shard(self.home).lock();
        if let Some(waiting) = homes.get_mut(&self.home) {
            *waiting -= 1;
            if *waiting == 0 {
                homes.remove(&self.home);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_home_has_so_many_places_and_others_have_theirs() {
        let crowd = Arc::new(Crowd::new());
        crowd.set_most(2);
        let places = [crowd.enter(1), crowd.enter(1)];
        assert!(places.iter().all(Option::is_some));
        assert!(crowd.enter(1).is_none() && crowd.enter(1 + SHARDS).is_some());
        assert_eq!(crowd.turned_away(), 1);
        drop(places);
        assert!(crowd.enter(1).is_some());
        assert!(crowd.homes.iter().all(|homes| homes.lock().is_empty()));
    }
}
