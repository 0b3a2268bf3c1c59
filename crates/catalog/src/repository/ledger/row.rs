//! A row of the ledger, and what becomes of it in an exchange. Pure: no database, no clock.

use serde::{Deserialize, Serialize};
use tollgate_core::{MAX_COUNT, Timestamp};

/// What a counter is called: the same on every node and in every version.
pub type LedgerName = [u8; 16];

/// The numbers of a row. Times are nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// Which period of the row this is; 0 for one that was never opened.
    pub generation: u64,
    /// When the period began.
    pub starts: u64,
    /// When it ends.
    pub ends: u64,
    /// What nodes may have let through in it.
    pub mark: u64,
    /// What they have told that they let through.
    pub used: u64,
    /// The highest threshold, in percent of the limit, that was reached in it.
    pub alerted: u64,
    /// What nodes let through in it without having been allowed to, while the database was unavailable.
    pub reported: u64,
}

/// A counter that another replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Which.
    pub name: LedgerName,
    /// The limit on it.
    pub limit: u64,
    /// What the node held of it, and will not spend any more.
    pub held: u64,
}

/// What a node says about one counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Which counter.
    pub name: LedgerName,
    /// Whose it is; empty where nobody's.
    pub org: String,
    /// What it is about, as JSON.
    pub label: String,
    /// The label may not be what the row has.
    pub relabel: bool,
    /// The limit on it.
    pub limit: u64,
    /// The limit that thresholds are parts of; 0 if none is to be looked for.
    pub alert_limit: u64,
    /// The period by the node's calendar: its start and end.
    pub period: (u64, u64),
    /// The generation that the node knows; 0 if none.
    pub generation: u64,
    /// When the period ends in which it was let through, by the node's calendar. It only matters where the generation is
    /// not known.
    pub until: u64,
    /// What it let through since it last told.
    pub spent: u64,
    /// What of that which it told before was not used after all.
    pub unused: u64,
    /// Of what it let through, what it had not been allowed to.
    pub owes: u64,
    /// What it gives back.
    pub gives: u64,
    /// What requests wait for.
    pub needs: u64,
    /// What it would like to have besides.
    pub wants: u64,
    /// How much room it may have at most when it is opened.
    pub room: u64,
    /// Counters that it replaces: when it is opened it has no more room than they have left.
    pub formers: Vec<Replaced>,
}

/// What was not used after all of what some node has spent, in the period that ends then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Of which counter.
    pub name: LedgerName,
    /// When the period ends, in nanoseconds since the epoch.
    pub ends: u64,
    /// How much.
    pub amount: u64,
}

/// What a run that has ended spent of a counter, and had left of it, without having told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// Which counter.
    pub name: LedgerName,
    /// In which period of it.
    pub generation: u64,
    /// By how much more was used.
    pub used: i64,
    /// By how much the mark changes: it falls by what was left, and rises by what was spent beyond it.
    pub mark: i64,
}

/// What the ledger says about one counter; of one that it does not know, nothing, in generation 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// The row as it is now.
    pub row: Row,
    /// What was added to the mark for the node to spend.
    pub granted: u64,
    /// What was added since it was spent already.
    pub owed: u64,
}

/// Where nodes share a row, the part of what is left that one may take ahead.
const SHARE: u64 = 8;

impl Row {
    /// Whether its period is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ends <= now.nanos()
    }

    /// What is left of a limit on it.
    pub fn left(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.mark)
    }

    /// Which thresholds, in percent of the limit, have been reached that had not been before in this period.
    pub fn reach<'t>(&mut self, limit: u64, thresholds: &'t [u8]) -> impl Iterator<Item = u8> + use<'t> {
        let (used, before) = (u128::from(self.used) * 100, self.alerted);
        let reached = move |threshold: &&u8| {
            limit > 0
                && u64::from(**threshold) > before
                && used >= u128::from(**threshold) * u128::from(limit)
        };
        let highest = thresholds.iter().filter(reached).max();
        self.alerted = highest.map_or(before, |highest| u64::from(*highest));
        thresholds.iter().filter(reached).copied()
    }

    /// Takes back what was not used after all, whoever spent it: it can be granted again. Says whether that period runs.
    pub fn refund(&mut self, refund: &Refund, now: Timestamp) -> bool {
        let runs = self.ends == refund.ends && !self.is_over(now);
        if runs {
            self.used = self.used.saturating_sub(refund.amount);
            self.mark = self.mark.saturating_sub(refund.amount).max(self.used);
        }
        runs
    }

    /// Settles what a run has left that ended. Says whether that period runs.
    pub fn settle(&mut self, unsettled: &Unsettled, now: Timestamp) -> bool {
        let runs = self.generation == unsettled.generation && !self.is_over(now);
        if runs {
            let raised = self
                .mark
                .saturating_add_signed(unsettled.mark.max(0))
                .min(MAX_COUNT);
            self.used = self.used.saturating_add_signed(unsettled.used).min(raised);
            self.mark = raised.saturating_add_signed(unsettled.mark.min(0)).max(self.used);
            self.report(unsettled.mark.max(0).unsigned_abs());
        }
        runs
    }

    /// Charges what was reported late to rows that this one replaces, in its first period.
    pub fn take_over(&mut self, late: u64, now: Timestamp) {
        if self.generation == 1 && !self.is_over(now) {
            self.mark = self.mark.saturating_add(late).min(MAX_COUNT);
            self.used = self.used.saturating_add(late).min(self.mark);
        }
    }

    /// Counts what was let through without having been allowed.
    fn report(&mut self, spent: u64) {
        self.reported = self.reported.saturating_add(spent).min(MAX_COUNT);
    }

    /// Does what a node asks. `room` is what the rows that this one replaces have left.
    pub fn exchange(&mut self, ask: &Ask, room: u64, now: Timestamp, shared: bool) -> Told {
        let known = self.generation;
        let mut begun = self.starts;
        if self.is_over(now) {
            begun = ask.period.0.max(self.ends);
            let opened = if known == 0 { room.min(ask.room) } else { u64::MAX };
            let opened = ask.limit.saturating_sub(opened);
            *self = Self {
                generation: known + 1,
                starts: ask.period.0,
                ends: ask.period.1,
                mark: opened,
                used: opened,
                alerted: 0,
                reported: 0,
            };
        }
        let mut owed = 0;
        // What was spent before anything was known counts in this period, unless its own had ended when this one began.
        let unknown = ask.generation == 0 && ask.until > begun;
        if ask.generation == self.generation || unknown {
            owed = ask.owes;
            self.mark = self.mark.saturating_add(owed).min(MAX_COUNT);
            self.report(owed);
            self.used = self.used.saturating_add(ask.spent).min(self.mark);
            self.used = self.used.saturating_sub(ask.unused);
            self.mark = self.mark.saturating_sub(ask.gives).max(self.used);
        }
        let left = self.left(ask.limit);
        let ahead = if shared { left / SHARE } else { left };
        let granted = ask.needs.saturating_add(ask.wants.min(ahead)).min(left);
        self.mark += granted;
        Told {
            row: *self,
            granted,
            owed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(needs: u64, wants: u64) -> Ask {
        Ask {
            name: [0; 16],
            org: String::new(),
            label: String::new(),
            relabel: false,
            limit: 100,
            alert_limit: 100,
            period: (0, 1_000),
            generation: 0,
            until: 1_000,
            spent: 0,
            unused: 0,
            owes: 0,
            gives: 0,
            needs,
            wants,
            room: u64::MAX,
            formers: Vec::new(),
        }
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn grants_as_far_as_the_limit() {
        let mut row = Row::default();
        let told = row.exchange(&ask(1, 59), u64::MAX, at(1), false);
        assert_eq!((told.granted, row.mark, row.generation), (60, 60, 1));
        let told = row.exchange(&ask(50, 10), u64::MAX, at(2), false);
        assert_eq!((told.granted, row.mark), (40, 100));
        assert_eq!(row.exchange(&ask(1, 1), u64::MAX, at(3), false).granted, 0);
        // A lowered limit takes nothing back, and grants nothing.
        let lowered = Ask {
            limit: 50,
            ..ask(1, 1)
        };
        assert_eq!(row.exchange(&lowered, u64::MAX, at(4), false).granted, 0);
        assert_eq!(row.mark, 100);
    }

    #[test]
    fn shares_what_is_left_but_not_what_is_needed() {
        let mut row = Row::default();
        assert_eq!(row.exchange(&ask(4, 90), u64::MAX, at(1), true).granted, 4 + 12);
        assert_eq!(row.exchange(&ask(84, 90), u64::MAX, at(1), true).granted, 84);
    }

    #[test]
    fn a_period_runs_to_its_end_and_then_another_begins() {
        let mut row = Row::default();
        row.exchange(&ask(80, 0), u64::MAX, at(1), false);
        // The calendar has changed meanwhile.
        let other = Ask {
            period: (0, 500),
            ..ask(30, 0)
        };
        assert_eq!(row.exchange(&other, u64::MAX, at(600), false).granted, 20);
        let next = Ask {
            period: (1_000, 2_000),
            generation: 1,
            spent: 70,
            gives: 10,
            ..ask(30, 0)
        };
        let told = row.exchange(&next, u64::MAX, at(1_000), false);
        // What is told of the period that is over does not count in the new one.
        assert_eq!((told.granted, row.mark, row.used), (30, 30, 0));
        assert_eq!((row.generation, row.starts, row.ends), (2, 1_000, 2_000));
        // A clock that went back goes on in it.
        assert_eq!(row.exchange(&ask(80, 0), u64::MAX, at(999), false).granted, 70);
    }

    #[test]
    fn what_was_spent_in_a_period_that_is_over_does_not_count_in_the_next() {
        let spent = |until: u64, period: (u64, u64)| Ask {
            spent: 30,
            owes: 30,
            until,
            period,
            ..ask(0, 0)
        };
        let opened = || {
            let mut row = Row::default();
            row.exchange(&ask(80, 0), u64::MAX, at(1), false);
            row
        };
        // In the period that runs, whatever calendar the node has.
        for until in [500, 1_000, 1_500] {
            let mut row = opened();
            let told = row.exchange(&spent(until, (0, 1_000)), u64::MAX, at(600), false);
            assert_eq!((told.owed, row.mark, row.used), (30, 110, 30), "{until}");
        }
        // Whoever opens the next one: this node, another before it, or this one with a calendar that began earlier.
        for (period, opens) in [
            ((1_000, 2_000), true),
            ((1_000, 2_000), false),
            ((700, 1_700), true),
        ] {
            let mut row = opened();
            if !opens {
                let other = Ask { period, ..ask(5, 0) };
                row.exchange(&other, u64::MAX, at(1_000), false);
            }
            let before = if opens { 0 } else { 5 };
            let told = row.exchange(&spent(1_000, period), u64::MAX, at(1_001), false);
            assert_eq!((told.owed, row.mark, row.used), (0, before, 0), "{period:?}");
            // What was spent since it began counts.
            row.exchange(&spent(period.1, period), u64::MAX, at(1_002), false);
            assert_eq!((row.mark, row.used), (before + 30, 30), "{period:?}");
        }
    }

    #[test]
    fn what_comes_back_can_be_granted_again_but_not_what_was_used() {
        let mut row = Row::default();
        row.exchange(&ask(100, 0), u64::MAX, at(1), false);
        let back = Ask {
            generation: 1,
            spent: 60,
            gives: 40,
            ..ask(0, 0)
        };
        row.exchange(&back, u64::MAX, at(2), false);
        assert_eq!((row.mark, row.used), (60, 60));
        // Nobody can give back what was told to be used.
        row.exchange(&back, u64::MAX, at(2), false);
        assert!(row.used <= row.mark && row.mark == 60);
    }

    #[test]
    fn what_was_not_used_after_all_is_still_held() {
        let mut row = Row::default();
        row.exchange(&ask(100, 0), u64::MAX, at(1), false);
        let told = Ask {
            generation: 1,
            spent: 60,
            ..ask(0, 0)
        };
        row.exchange(&told, u64::MAX, at(2), false);
        let settled = Ask {
            generation: 1,
            unused: 25,
            ..ask(0, 0)
        };
        row.exchange(&settled, u64::MAX, at(3), false);
        assert_eq!((row.mark, row.used), (100, 35));
        // In another period it was never used.
        row.exchange(&settled, u64::MAX, at(1_000), false);
        assert_eq!((row.mark, row.used), (0, 0));
    }

    #[test]
    fn what_another_node_did_not_use_can_be_granted_again_in_its_period() {
        let mut row = Row::default();
        row.exchange(&ask(100, 0), u64::MAX, at(1), false);
        let refund = |ends| Refund {
            name: [0; 16],
            ends,
            amount: 30,
        };
        assert!(!row.refund(&refund(2_000), at(2)));
        assert!(!row.refund(&refund(1_000), at(1_000)));
        assert_eq!(row.mark, 100);
        // Before it was told that it was spent, and after.
        assert!(row.refund(&refund(1_000), at(2)));
        assert_eq!((row.mark, row.used), (70, 0));
        let spent = Ask {
            generation: 1,
            spent: 60,
            ..ask(0, 0)
        };
        row.exchange(&spent, u64::MAX, at(3), false);
        assert!(row.refund(&refund(1_000), at(4)));
        assert_eq!((row.mark, row.used), (40, 30));
        assert_eq!(row.exchange(&ask(100, 0), u64::MAX, at(5), false).granted, 60);
    }

    #[test]
    fn each_threshold_is_reached_once_in_a_period() {
        let mut row = Row::default();
        let spend = |row: &mut Row, spent: u64, now: u64| {
            let ask = Ask {
                generation: row.generation,
                period: (now / 1_000 * 1_000, (now / 1_000 + 1) * 1_000),
                spent,
                owes: spent,
                ..ask(0, 0)
            };
            row.exchange(&ask, u64::MAX, at(now), false);
            row.reach(100, &[50, 80, 100]).collect::<Vec<u8>>()
        };
        assert!(spend(&mut row, 49, 1).is_empty());
        assert_eq!(spend(&mut row, 31, 2), [50, 80]);
        assert!(spend(&mut row, 1, 3).is_empty());
        // What is given back and used again has been told.
        row.used = 10;
        assert!(spend(&mut row, 50, 4).is_empty());
        assert_eq!(spend(&mut row, 90, 5), [100]);
        assert!(spend(&mut row, 0, 1_000).is_empty());
        assert_eq!(spend(&mut row, 60, 1_001), [50]);
    }

    #[test]
    fn what_is_owed_counts_past_the_limit() {
        let mut row = Row::default();
        let owing = Ask {
            spent: 120,
            owes: 120,
            ..ask(1, 0)
        };
        let told = row.exchange(&owing, u64::MAX, at(1), false);
        assert_eq!((told.owed, told.granted, row.mark, row.used), (120, 0, 120, 120));
    }

    #[test]
    fn what_is_used_stops_at_its_maximum() {
        let mut row = Row::default();
        for _ in 0..3 {
            let owing = Ask {
                spent: u64::MAX,
                owes: u64::MAX,
                ..ask(1, 1)
            };
            let told = row.exchange(&owing, u64::MAX, at(1), false);
            assert_eq!((told.granted, row.mark, row.used), (0, MAX_COUNT, MAX_COUNT));
        }
    }

    #[test]
    fn begins_with_no_more_room_than_what_it_replaces() {
        let mut row = Row::default();
        let told = row.exchange(&ask(50, 0), 30, at(1), false);
        assert_eq!((told.granted, row.mark, row.used), (30, 100, 70));
        // Only when it is opened for the first time.
        let told = row.exchange(&ask(50, 0), 30, at(1_000), false);
        assert_eq!((told.granted, row.mark), (50, 50));
    }
}
