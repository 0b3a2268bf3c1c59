//! Memory that strangers may make the server hold: bounded for all clients together, and for each.
//!
//! Most requests arrive in one piece and never get here. What grows beyond a few KiB, or stays, is counted by where it
//! came from, so that one client that fills its part leaves room for the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bound on what clients make the server hold, in bytes or in pieces.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    most_of_origin: usize,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    all: usize,
    /// Only those that hold something.
    origins: HashMap<IpAddr, usize>,
}

/// Part of a budget; given back when it is dropped.
#[derive(Debug)]
pub struct Holding {
    budget: Arc<Budget>,
    origin: IpAddr,
    size: usize,
}

impl Budget {
    /// A budget of so much for all, and so much for each origin.
    pub fn new(most: usize, most_of_origin: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_origin,
            parts: Mutex::default(),
        })
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part for a peer, of nothing yet.
    pub fn part_of(self: &Arc<Self>, peer: IpAddr) -> Holding {
        Holding {
            budget: self.clone(),
            origin: origin(peer),
            size: 0,
        }
    }
}

impl Holding {
    /// Makes it so large; false, and nothing is changed, if there is no room for that.
    #[must_use]
    pub fn grow_to(&mut self, size: usize) -> bool {
        let more = size.saturating_sub(self.size);
        if more == 0 {
            return true;
        }
        let mut parts = self.budget.parts();
        let of_origin = parts.origins.get(&self.origin).copied().unwrap_or(0);
        if parts.all + more > self.budget.most || of_origin + more > self.budget.most_of_origin {
            return false;
        }
        parts.all += more;
        parts.origins.insert(self.origin, of_origin + more);
        self.size = size;
        true
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        if self.size == 0 {
            return;
        }
        let mut parts = self.budget.parts();
        parts.all = parts.all.saturating_sub(self.size);
        if let Some(of_origin) = parts.origins.get_mut(&self.origin) {
            *of_origin = of_origin.saturating_sub(self.size);
            if *of_origin == 0 {
                parts.origins.remove(&self.origin);
            }
        }
        self.size = 0;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where a peer is: of IPv6 the network, since a host may have any address of that.
fn origin(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn bounds_hold_for_each_origin_and_for_all() {
        let budget = Budget::new(10, 6);
        let mut first = budget.part_of(peer("192.0.2.1"));
        let mut again = budget.part_of(peer("::ffff:192.0.2.1"));
        let mut other = budget.part_of(peer("192.0.2.2"));
        assert!(first.grow_to(4) && again.grow_to(2));
        assert!(!again.grow_to(3), "its origin has no more");
        assert!(other.grow_to(4));
        assert!(!other.grow_to(5), "there is no more for all");
        assert!(first.grow_to(3), "what it holds it may go on holding");
        drop(first);
        assert!(other.grow_to(6));
        again.clear();
        drop(other);
        let parts = budget.parts();
        assert!(parts.origins.is_empty() && parts.all == 0);
    }

    #[test]
    fn addresses_of_one_network_are_one_origin() {
        let budget = Budget::new(10, 1);
        let mut one = budget.part_of(peer("2001:db8::1"));
        let mut same = budget.part_of(peer("2001:db8::2"));
        let mut other = budget.part_of(peer("2001:db8:0:1::1"));
        assert!(one.grow_to(1) && !same.grow_to(1) && other.grow_to(1));
    }
}
