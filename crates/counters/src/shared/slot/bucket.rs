//! Buckets that lend.
//!
//! What a bucket owes counts leased tokens from when they are lent, and while they are out it never owes less than
//! they are: it drains down to them and no further. So it owes at least what was spent and has not drained yet, and
//! all that may still be spent, whenever that happens and whatever becomes of its numbers meanwhile. See
//! docs/leases.md.

use super::super::call::{Kind, LONGEST_HOLD, MOST, Micros, Return, Terms, Want};
use super::Bug;
use super::counter::{Counter, Lent, MOST_GONE};

impl Counter {
    /// A bucket's debt at an instant, in parts of a token. One that is not soft never owes more than it holds, and what
    /// is on lease, and what requests wait with: that may still be given back, and can't be credited once it was cut off.
    pub(super) fn debt(&self, limit: u64, capacity: u64, soft: bool, now: Micros) -> (Micros, u128) {
        let [at, tokens, parts] = self.numbers;
        let window = u128::from(self.terms.window);
        let then = now.max(at);
        let leased = u128::from(self.leased()) * window;
        let mut owed = u128::from(tokens) * window + u128::from(parts);
        if !soft {
            let mut most = u128::from(capacity) * window + leased;
            if self.bug != Some(Bug::CutIsCredited) {
                most += u128::from(self.needed()) * window;
            }
            owed = owed.min(most);
        }
        let drained = u128::from(limit) * u128::from(then - at);
        let least = if self.bug == Some(Bug::LeasesDrain) {
            0
        } else {
            leased
        };
        (then, owed.saturating_sub(drained).max(least))
    }

    /// A bucket's numbers.
    pub(super) fn bucket(&self, at: Micros, owed: u128) -> [u64; 3] {
        let window = u128::from(self.terms.window);
        let tokens = u64::try_from(owed / window).unwrap_or(MOST).min(MOST);
        let parts = u64::try_from(owed % window).unwrap_or(0);
        [at, tokens, parts]
    }

    /// Lets go of leases that have ended, one after the other: until then each held the bucket down.
    pub(super) fn settle_bucket(&mut self, now: Micros) {
        loop {
            let ends = self.lent.iter().enumerate();
            let ended = ends.filter(|(_, lent)| lent.until <= now);
            let Some((place, first)) = ended.min_by_key(|(_, lent)| lent.until) else {
                break;
            };
            let until = first.until;
            let (at, owed) = self.debt(self.terms.limit, self.terms.capacity, false, until);
            self.numbers = self.bucket(at, owed);
            self.lent.remove(place);
        }
        self.let_needed_drain(now);
    }

    /// What a request waited for, and has spent, drains as any other charge: only what is left of it can come back.
    fn let_needed_drain(&mut self, now: Micros) {
        if !self.lent.iter().any(|lent| lent.needed) {
            return;
        }
        let (_, owed) = self.debt(self.terms.limit, self.terms.capacity, false, now);
        let owed = u64::try_from(owed / u128::from(self.terms.window)).unwrap_or(MOST);
        let left = owed.saturating_sub(self.leased());
        for lent in self.lent.iter_mut().filter(|lent| lent.needed) {
            lent.amount = lent.amount.min(left);
        }
    }

    /// Lends of a bucket. Half of what it holds may be out at once: so much a bucket holds back after a loss.
    pub(super) fn lend_of_bucket(&mut self, want: &Want, now: Micros) -> (u64, Micros) {
        let Terms {
            kind,
            limit,
            capacity,
            window,
            ..
        } = self.terms;
        let hold = want.hold.min(LONGEST_HOLD);
        let window = u128::from(window);
        let (at, owed) = self.debt(limit, capacity, want.is_soft(), now);
        if kind == Kind::Leaky && !want.needed && owed < u128::from(hold) * u128::from(limit) {
            // A turn that may have passed when it is spent is nobody's.
            return (0, 0);
        }
        let mut amount = want.amount;
        if !want.is_soft() {
            let room = (u128::from(capacity.min(want.most)) * window).saturating_sub(owed) / window;
            amount = amount.min(u64::try_from(room).unwrap_or(MOST));
        }
        if !want.needed {
            amount = amount.min((capacity / 2).saturating_sub(self.leased()));
        }
        if amount > 0 {
            self.numbers = self.bucket(at, owed + u128::from(amount) * window);
            self.note_lent(want, amount, now, hold);
        }
        (amount, hold)
    }

    /// Takes back what was not spent of a lease.
    pub(super) fn take_back_into_bucket(&mut self, given: &Return, now: Micros) {
        let place = match self.bug {
            Some(Bug::BucketCredit | Bug::AnyLeaseReturns) if !self.lent.is_empty() => Some(0),
            _ => self.find(given.lease),
        };
        let credited = self.bug == Some(Bug::BucketCredit);
        if place.is_none() && !credited {
            return;
        }
        let lent = place.map_or(MOST, |place| self.lent[place].amount);
        let (at, owed) = self.debt(self.terms.limit, self.terms.capacity, false, now);
        let unspent = given.unspent.min(lent);
        let credit = u128::from(unspent) * u128::from(self.terms.window);
        self.numbers = self.bucket(at, owed.saturating_sub(credit));
        if let Some(place) = place.filter(|_| !credited && self.bug != Some(Bug::ReturnTwice)) {
            let back = self.lent.remove(place);
            if back.needed {
                // Without it the others would have drained so much sooner.
                for lent in self.lent.iter_mut().filter(|lent| lent.needed) {
                    lent.amount = lent.amount.saturating_sub(unspent);
                }
            }
        }
        self.changed = true;
    }

    /// A lease that can't come back any more still holds the bucket down, unless it was spent at once.
    pub(super) fn hold_down(&mut self, gone: Lent) {
        if gone.needed {
            return;
        }
        let gone_before = self.lent.iter().filter(|lent| lent.is_nobodys()).count();
        if gone_before >= MOST_GONE
            && let Some(rest) = self.lent.iter_mut().rfind(|lent| lent.is_nobodys())
        {
            rest.amount = (rest.amount + gone.amount).min(MOST);
            rest.until = rest.until.max(gone.until);
            return;
        }
        self.lent.push(Lent {
            id: Lent::NOBODY,
            ..gone
        });
    }

    /// What a bucket has on lease.
    fn leased(&self) -> u64 {
        self.sum_of(|lent| !lent.needed)
    }

    /// What requests have of a bucket while they wait for another slot.
    fn needed(&self) -> u64 {
        self.sum_of(|lent| lent.needed)
    }

    fn sum_of(&self, counts: impl Fn(&Lent) -> bool) -> u64 {
        let lent = self.lent.iter().filter(|lent| counts(lent));
        lent.map(|lent| lent.amount)
            .fold(0, |sum, amount| (sum + amount).min(MOST))
    }
}
