//! What an Envoy holds of one bucket: lots that were charged before they were sent, and what it said it used of them.
//!
//! Nothing here reads a clock or counts anywhere. Times are nanoseconds on a clock that only goes on.
//!
//! Reports say how much was used, not of which lot, so use is taken off the oldest lot first. A lot is over once a report has
//! come that Envoy must have made after it stopped spending it; everything that it used is reported by then, and what is left
//! of it was not. Taking the use off the oldest lots keeps that true when some of it was really the next lot's: what is given
//! back is at most what is unused of all lots that are over.

use std::collections::VecDeque;

/// Requests that an Envoy may let through, with what was charged for them.
#[derive(Debug)]
struct Lot<C> {
    granted: u64,
    used: u64,
    /// A report that comes from then on was made after its end.
    over: u64,
    /// When Envoy stops spending it, if it came at once and nothing came after it.
    expires: u64,
    charge: C,
}

/// The lots of a bucket that may still be spent, or whose use is not all reported.
#[derive(Debug)]
pub(super) struct Lots<C>(VecDeque<Lot<C>>);

/// What a report comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reported<C> {
    /// Used beyond all that there was.
    pub(super) beyond: u64,
    /// Lots that are over, and what is left of each.
    pub(super) over: Vec<(C, u64)>,
}

impl<C> Lots<C> {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds a lot that replaces what Envoy has of others. It may be spent for its time to live from when it arrives, and it
    /// arrives, and a report comes back, within its time to live.
    pub(super) fn assign(&mut self, granted: u64, ttl: u64, sent: u64, charge: C) {
        let arrived = sent.saturating_add(ttl);
        for lot in &mut self.0 {
            lot.over = lot.over.min(arrived);
        }
        self.0.push_back(Lot {
            granted,
            used: 0,
            over: arrived.saturating_add(ttl),
            expires: arrived,
            charge,
        });
    }

    /// Takes a report that came at an instant.
    pub(super) fn report(&mut self, used: u64, at: u64) -> Reported<C> {
        let mut beyond = used;
        for lot in &mut self.0 {
            let here = beyond.min(lot.granted - lot.used);
            lot.used += here;
            beyond -= here;
        }
        let mut over = Vec::new();
        while let Some(lot) = self.0.pop_front_if(|lot| lot.over <= at) {
            over.push((lot.charge, lot.granted - lot.used));
        }
        Reported { beyond, over }
    }

    /// Ends with all of them when no report will come any more: what is left of each may have been used, or not.
    pub(super) fn abandon(self) -> impl Iterator<Item = (C, u64)> {
        self.0.into_iter().map(|lot| (lot.charge, lot.granted - lot.used))
    }

    /// What is not reported as used.
    pub(super) fn unused(&self) -> u64 {
        self.0.iter().map(|lot| lot.granted - lot.used).sum()
    }

    /// When the last one expires, if something of it may be left.
    pub(super) fn lasts_until(&self) -> Option<u64> {
        let last = self.0.back().filter(|lot| lot.used < lot.granted);
        last.map(|lot| lot.expires)
    }

    /// Until when anything of them may be reported.
    pub(super) fn over_at(&self) -> u64 {
        self.0.back().map_or(0, |lot| lot.over)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_not_used_comes_back_after_twice_the_time_to_live() {
        let mut lots = Lots::new();
        lots.assign(10, 100, 0, 'a');
        assert_eq!(lots.report(3, 199), reported(0, &[]));
        assert_eq!(lots.report(0, 200), reported(0, &[('a', 7)]));
        assert_eq!(lots.report(0, 500), reported(0, &[]));
    }

    #[test]
    fn a_lot_that_was_replaced_is_over_earlier() {
        let mut lots = Lots::new();
        lots.assign(10, 100, 0, 'a');
        lots.assign(10, 100, 50, 'b');
        assert_eq!(lots.report(12, 100), reported(0, &[]));
        assert_eq!(lots.unused(), 8);
        assert_eq!(lots.report(0, 150), reported(0, &[('a', 0)]));
        assert_eq!(lots.report(0, 250), reported(0, &[('b', 8)]));
    }

    #[test]
    fn more_than_there_was_is_told() {
        let mut lots = Lots::new();
        assert_eq!(lots.report(2, 0), reported(2, &[]));
        lots.assign(10, 100, 0, 'a');
        assert_eq!(lots.report(13, 1), reported(3, &[]));
        assert_eq!(lots.lasts_until(), None);
    }

    fn reported(beyond: u64, over: &[(char, u64)]) -> Reported<char> {
        Reported {
            beyond,
            over: over.to_vec(),
        }
    }

    /// What happens next, and how long after the last thing.
    #[derive(Debug, Clone)]
    enum Happens {
        /// A lot of so many is sent, for a time to live, and arrives so much later.
        Assign { granted: u64, ttl: u64, delay: u64 },
        /// So many requests come.
        Ask(u64),
        /// Envoy makes a report, which arrives so much later.
        Report { delay: u64 },
        /// Time goes by.
        Wait(u64),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            (1..50_u64, 20..60_u64, 0..10_u64).prop_map(|(granted, ttl, delay)| Happens::Assign {
                granted,
                ttl,
                delay
            }),
            (1..60_u64).prop_map(Happens::Ask),
            (0..10_u64).prop_map(|delay| Happens::Report { delay }),
            (1..40_u64).prop_map(Happens::Wait),
        ]
    }

    /// An Envoy as it is: what it holds is replaced by what arrives, and ends by its time to live. Messages keep their order.
    #[derive(Default)]
    struct Envoy {
        to_come: VecDeque<(u64, u64, u64)>,
        tokens: u64,
        until: u64,
        unreported: u64,
        used: u64,
    }

    impl Envoy {
        fn live(&mut self, now: u64) {
            while let Some((at, granted, ttl)) = self.to_come.pop_front_if(|(at, ..)| *at <= now) {
                (self.tokens, self.until) = (granted, at + ttl);
            }
            if now >= self.until {
                self.tokens = 0;
            }
        }

        fn ask(&mut self, requests: u64) {
            let used = requests.min(self.tokens);
            self.tokens -= used;
            self.unreported += used;
            self.used += used;
        }
    }

    proptest! {
        /// What is charged and was not given back is never less than what was used and what can still be used, and no charge is
        /// given back twice.
        #[test]
        fn nothing_is_given_back_that_was_used(story in proptest::collection::vec(happens(), 1..200)) {
            let (mut envoy, mut lots) = (Envoy::default(), Lots::new());
            let mut reports: VecDeque<(u64, u64)> = VecDeque::new();
            let (mut now, mut charged, mut returned, mut number) = (0_u64, 0, 0, 0_u64);
            let mut ended = std::collections::HashSet::new();
            for event in story {
                let mut pass = 0;
                match event {
                    Happens::Assign { granted, ttl, delay } => {
                        charged += granted;
                        number += 1;
                        lots.assign(granted, ttl, now, number);
                        let last = envoy.to_come.back().map_or(0, |(at, ..)| *at);
                        envoy.to_come.push_back(((now + delay).max(last), granted, ttl));
                    }
                    Happens::Ask(requests) => envoy.ask(requests),
                    Happens::Report { delay } => {
                        let last = reports.back().map_or(0, |(at, _)| *at);
                        reports.push_back(((now + delay).max(last), std::mem::take(&mut envoy.unreported)));
                    }
                    Happens::Wait(time) => pass = time,
                }
                for _ in 0..=pass {
                    envoy.live(now);
                    while let Some((_, used)) = reports.pop_front_if(|(at, _)| *at <= now) {
                        let told = lots.report(used, now);
                        prop_assert_eq!(told.beyond, 0);
                        for (charge, back) in told.over {
                            prop_assert!(ended.insert(charge), "given back twice");
                            returned += back;
                        }
                    }
                    let to_come: u64 = envoy.to_come.iter().map(|(_, granted, _)| granted).sum();
                    prop_assert!(envoy.used + envoy.tokens + to_come <= charged - returned);
                    now += u64::from(pass > 0);
                }
            }
            // In the end all that was not used is back.
            for _ in 0..2 {
                now += 1_000;
                envoy.live(now);
                let told = lots.report(std::mem::take(&mut envoy.unreported) + reports.drain(..).map(|(_, used)| used).sum::<u64>(), now);
                returned += told.over.iter().map(|(_, back)| back).sum::<u64>();
            }
            prop_assert!(lots.is_empty());
            prop_assert_eq!(charged - returned, envoy.used);
        }
    }
}
