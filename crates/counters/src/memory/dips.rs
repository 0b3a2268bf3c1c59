//! What a bucket may be given back: no more than it has owed at every instant since.
//!
//! Had a charge been smaller by `x`, the bucket would owe less today: by `x`, or if it ever owed less than that since, by the
//! least that it owed, for then it would have been empty while it really still drained. To give back more than this would
//! let those tokens be spent twice. So the least that a bucket has owed is remembered since each charge that may be
//! given back.
//!
//! The later a charge, the higher its least: these are steps that only ever rise, and whenever the bucket is low the upper ones
//! become one.

/// Steps that are told apart. With more, the newest charge counts with the one before it, which allows it less.
const MOST: usize = 1_024;

/// The least that one bucket has owed since each of its open charges, in the units of its debt.
#[derive(Debug, Default)]
pub(super) struct Dips {
    /// From which ticket on, and the least. Both rise.
    steps: Vec<(u64, u128)>,
    next: u64,
    open: usize,
}

impl Dips {
    /// Notes that the bucket owes only so much.
    pub(super) fn dip(&mut self, owed: u128) {
        let mut first = None;
        while let Some((ticket, _)) = self.steps.pop_if(|(_, least)| *least >= owed) {
            first = Some(ticket);
        }
        self.steps.extend(first.map(|ticket| (ticket, owed)));
    }

    /// Begins with a charge after which the bucket owes so much, and gives it a ticket.
    pub(super) fn open(&mut self, owed: u128) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.open += 1;
        if self.steps.len() < MOST {
            self.steps.push((ticket, owed));
        }
        ticket
    }

    /// Ends with a charge of which so much was not used, and says how much of that is given back.
    pub(super) fn close(&mut self, ticket: u64, unused: u128) -> u128 {
        self.open = self.open.saturating_sub(1);
        let after = self.steps.partition_point(|(first, _)| *first <= ticket);
        let Some(own) = after.checked_sub(1) else {
            return 0;
        };
        let least = self.steps[own].1;
        let back = unused.min(least);
        // The bucket has owed so much less ever since that charge: who came later has seen it lower, and who came before has,
        // unless it was lower still by then.
        for (place, (_, known)) in self.steps.iter_mut().enumerate() {
            *known = if place < own {
                (*known).min(least - back)
            } else {
                *known - back
            };
        }
        back
    }

    /// Whether nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_may_have_back_the_least_that_was_owed_since() {
        let mut dips = Dips::default();
        let first = dips.open(10);
        dips.dip(4);
        let second = dips.open(20);
        dips.dip(12);
        let third = dips.open(15);
        assert_eq!(dips.close(second, 1), 1);
        assert_eq!(dips.close(third, 99), 14);
        assert_eq!(dips.close(first, 99), 0);
        assert!(dips.is_empty());
    }

    #[test]
    fn who_came_before_has_seen_the_bucket_lower_too_unless_it_was() {
        let mut dips = Dips::default();
        let first = dips.open(10);
        dips.dip(4);
        let second = dips.open(20);
        assert_eq!(dips.close(second, 9), 9);
        assert_eq!(dips.close(first, 99), 4);
    }

    #[test]
    fn too_many_count_with_those_before_them() {
        let mut dips = Dips::default();
        let tickets: Vec<u64> = (1..=2_000).map(|owed| dips.open(owed)).collect();
        assert_eq!(dips.close(tickets[1_999], 2_000), 1_024);
        assert_eq!(dips.steps.len(), MOST);
    }
}
