//! The judge's own count: the most that a limit may still let through.

use std::time::Instant;

use super::policy::{Count, Policy};

/// What callers were told.
#[derive(Debug, Default, Clone, Copy)]
pub struct Told {
    /// Let through by Redis, or by what nodes had borrowed there.
    pub admitted: u64,
    /// Let through by a fallback.
    pub fallback: u64,
    pub denied: u64,
    pub unavailable: u64,
}

impl Told {
    pub fn add(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.fallback += other.fallback;
        self.denied += other.denied;
        self.unavailable += other.unavailable;
    }

    pub fn all(&self) -> u64 {
        self.admitted + self.fallback + self.denied + self.unavailable
    }
}

/// The book on one org.
///
/// What fallbacks let through is not entered: they may let through what they like, and are charged for it later. But
/// nothing of it gives the store more room than there was.
#[derive(Debug)]
pub struct Book {
    /// The most that may still be let through; below 0 if a limit was lowered to less than was used.
    room: f64,
    since: Instant,
    /// Redis has charged the count that is in force.
    pub is_charged: bool,
}

impl Book {
    pub fn open(policy: &Policy) -> Self {
        Self {
            room: policy.capacity() as f64,
            since: Instant::now(),
            is_charged: false,
        }
    }

    /// Enters what was let through since the last entry, and says by how much that is too much.
    pub fn enter(&mut self, policy: &Policy, told: &Told) -> Option<f64> {
        let now = Instant::now();
        let flown = policy.rate() * now.duration_since(self.since).as_secs_f64();
        (self.since, self.room) = (now, self.room.min(policy.capacity() as f64) + flown);
        if !policy.is_enforced() {
            return None;
        }
        self.is_charged |= told.admitted > 0;
        self.room -= told.admitted as f64;
        (told.admitted > 0 && self.room < -0.001).then_some(-self.room)
    }

    /// Enters that another policy is in force.
    pub fn change(&mut self, before: &Policy, after: &Policy, count: Count) {
        self.enter(before, &Told::default());
        match count {
            Count::Begins => {
                self.room = self.room.max(0.0);
                self.is_charged = false;
            }
            Count::GoesOn => {
                self.room += after.capacity() as f64 - before.capacity() as f64;
                // A bucket owes no more than it holds.
                if after.is_bucket() {
                    self.room = self.room.max(0.0);
                }
            }
        }
        self.room = self.room.min(after.capacity() as f64);
    }
}
