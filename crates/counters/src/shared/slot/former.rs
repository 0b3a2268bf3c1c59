//! What a counter leaves to one that replaces it.

use super::super::call::{Kind, MOST, Micros};
use super::counter::{Counter, Lent};

impl Counter {
    /// What is on lease at an instant, and until when.
    pub(super) fn on_lease(&self, now: Micros) -> (u64, Micros) {
        let live = self.lent.iter().filter(|lent| lent.until > now && !lent.needed);
        live.fold((0, 0), |all, lent| both(all, (lent.amount, lent.until)))
    }

    /// Leaves no more room than a counter has that it replaces; what that has on lease holds a bucket down. It is
    /// written with the first charge.
    pub(super) fn narrow(&mut self, room: u64, (amount, until): (u64, Micros), now: Micros) {
        let excess = self.remaining(now).saturating_sub(room);
        match self.terms.kind {
            Kind::Token | Kind::Leaky => {
                self.idle_now = None;
                // No part of a token more, either.
                let window = u128::from(self.terms.window);
                let (at, owed) = self.debt(self.terms.limit, self.terms.capacity, false, now);
                let least = u128::from(self.terms.capacity.saturating_sub(room)) * window;
                if owed < least {
                    self.numbers = self.bucket(at, least);
                }
            }
            _ if excess == 0 => {}
            Kind::Log => self.enter(now, excess),
            Kind::Sliding => self.numbers[2] += excess,
            _ => self.numbers[1] += excess,
        }
        if self.terms.kind.is_bucket() && amount > 0 {
            self.hold_down(Lent {
                id: Lent::NOBODY,
                amount,
                until,
                needed: false,
            });
        }
    }
}

/// Two amounts on lease, and until when both are.
pub(super) fn both(one: (u64, Micros), other: (u64, Micros)) -> (u64, Micros) {
    ((one.0 + other.0).min(MOST), one.1.max(other.1))
}
