//! The verdict on a run, from what happened in it alone.
//!
//! *Never over*: what was admitted satisfies each algorithm's own inequality, in the store's time
//! ([`meter::Meter`]). *All or none*: nothing is charged twice, and a denial has its reason in what was charged
//! or lent, and nothing else ([`book::Book`]). *Not too little*: in a run without faults a denial has its
//! reason in what was admitted, but for what the limit's accuracy lets lie unused.

mod book;
mod meter;
mod replay;

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::Algorithm;

use crate::history::{Entry, History, Lack, Nature, Numbers, Replaced, What};
use book::Book;
use meter::Meter;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const BASIS: u64 = 10_000;
/// The store keeps a counter for at least so long after it stopped to matter.
const KEPT: u64 = 300 * SECOND;
/// A node remembers a denial at most so long, whatever happens to the store meanwhile.
const REMEMBERED: u64 = SECOND + 100 * MILLI;

/// Something that must not happen.
#[derive(Debug, Clone)]
pub struct Violation {
    /// When, in true nanoseconds.
    pub at: u64,
    /// What.
    pub what: String,
}

struct Account {
    meter: Meter,
    /// What was charged and lent.
    taken: Book,
    /// What was admitted.
    used: Book,
    /// What requests had in hand while they waited for another home: until when, how much.
    in_hand: Vec<(u64, u64)>,
    numbers: Option<Numbers>,
    /// When the store was last told of numbers, in true time.
    told: u64,
    /// What it was charged of fallbacks.
    reported: Reported,
    /// What of that those were charged that it replaces, as far as it has taken that over.
    taken_over: BTreeMap<usize, Reported>,
}

/// What a counter was charged of fallbacks.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// With all that may have drained.
    at_most: u64,
    /// With no more than had not drained.
    at_least: u64,
}

/// What is left of the counters that one replaces.
#[derive(Debug, Clone, Default)]
struct Room {
    /// By what was charged and lent.
    at_least: Option<u64>,
    /// By what was admitted, as far as it has to be known.
    at_most: Option<u64>,
    /// What they have on lease: until when, how much.
    leases: Vec<(u64, u64)>,
}

struct Judge<'a> {
    natures: &'a BTreeMap<usize, Nature>,
    accounts: BTreeMap<usize, Account>,
    /// When a home's memory began.
    began: BTreeMap<usize, u64>,
    /// When a home's time last changed its course, in true time.
    changed: BTreeMap<usize, u64>,
    charged: BTreeSet<(usize, (u64, u64, usize))>,
    calm: bool,
    found: Vec<Violation>,
}

/// Judges a run. One without faults is `calm`.
pub fn judge(history: &mut History, calm: bool) -> Vec<Violation> {
    history.entries.sort_by_key(|entry| (entry.at, entry.order));
    let mut judge = Judge {
        natures: &history.natures,
        accounts: BTreeMap::new(),
        began: BTreeMap::new(),
        changed: BTreeMap::new(),
        charged: BTreeSet::new(),
        calm,
        found: Vec::new(),
    };
    for (at, what) in &history.broken {
        judge.found.push(Violation {
            at: *at,
            what: what.clone(),
        });
    }
    for entry in &history.entries {
        judge.take(entry);
    }
    judge.found
}

impl Judge<'_> {
    fn take(&mut self, entry: &Entry) {
        let Some(counter) = entry.counter else {
            return self.take_for_all(entry);
        };
        let nature = &self.natures[&counter];
        let account = self
            .accounts
            .entry(counter)
            .or_insert_with(|| Account::new(nature));
        let Entry { at, stamp, .. } = *entry;
        match &entry.what {
            What::Told(numbers) => self.tell(entry, counter, *numbers),
            What::Charged { cost, id } => {
                if !self.charged.insert((counter, *id)) {
                    return self.object(entry, "charged twice for one request");
                }
                self.with(counter, |account, numbers| {
                    account.meter.opened(stamp);
                    account.taken.charge(numbers, *cost, stamp);
                });
            }
            What::Returned => account.meter.advance(stamp),
            What::InHand { cost, until } => {
                account.in_hand.retain(|(until, _)| *until + REMEMBERED >= at);
                account.in_hand.push((*until, *cost));
            }
            What::LetThrough { cost, id } => account.meter.let_through(*cost, *id, at, stamp),
            What::Settled { cost, ids } => {
                let lost = self.began.get(&entry.home).copied();
                account.reported.at_least += account.meter.settled(*cost, ids, lost, at, stamp);
                account.reported.at_most += cost;
                self.with(counter, |account, numbers| {
                    account.taken.settle(numbers, *cost, stamp);
                    account.used.settle(numbers, *cost, stamp);
                });
            }
            What::Named(formers) => self.take_over(entry, counter, formers),
            What::Lent { amount, hold, urgent } => {
                self.with(counter, |account, numbers| {
                    if *urgent {
                        account.meter.opened(stamp);
                        account.taken.take(numbers, *amount, *hold, stamp);
                        // What becomes of it is another home's to say.
                        account.used.take(numbers, *amount, *hold, stamp);
                    } else {
                        account.meter.lent(*amount, *hold, at, stamp);
                        account.taken.lend(numbers, *amount, *hold, stamp);
                    }
                });
            }
            What::Admitted { cost, local, lent } => {
                let wrong = account.meter.admitted(*cost, *local, at, stamp);
                self.with(counter, |account, numbers| {
                    if !lent {
                        account.used.charge(numbers, *cost, stamp);
                    }
                });
                if let Some(wrong) = wrong {
                    self.object(entry, &wrong);
                }
            }
            What::Denied { .. } | What::SetAhead | What::SetBack | What::WentBack | What::Began => {}
        }
    }

    /// The store learns of a counter's numbers. One that it did not know begins with no more room than those have left
    /// that it replaces.
    fn tell(&mut self, entry: &Entry, counter: usize, numbers: Numbers) {
        let Entry { at, stamp, home, .. } = *entry;
        let room = self.room_of_formers(counter, at, stamp);
        let began = self.began.get(&home).copied();
        // One that is out of reach counts as used up when it was left.
        let out_of_reach = |former: &&Replaced| former.out_of_reach;
        let formers = self.natures[&counter].formers.iter().filter(out_of_reach);
        let left = formers.clone().map(|former| former.left.min(stamp)).max();
        let known = formers.filter(|former| at < former.until);
        let known_left = known.map(|former| former.left.min(stamp)).max();
        let reported = self.natures[&counter].formers.iter();
        let reported = reported.map(|former| (former.counter, self.reported(former.counter)));
        let reported: BTreeMap<usize, Reported> = reported.collect();
        let Some(account) = self.accounts.get_mut(&counter) else {
            return;
        };
        let is_new = account.meter.is_new();
        account.meter.told(numbers, at, stamp);
        account.told = at;
        if let Some(old) = account.numbers.replace(numbers) {
            account.taken.change(old, numbers, stamp);
            account.used.change(old, numbers, stamp);
            return;
        }
        account.taken_over = reported;
        for book in [&mut account.taken, &mut account.used] {
            if let Some(lost) = began.max(left) {
                book.use_up(numbers, lost);
            }
            if let Some(least) = room.at_least {
                book.narrow(numbers, least, &room.leases, stamp);
            }
        }
        if let Some(lost) = began.max(known_left).filter(|_| is_new) {
            account.meter.was_lost(numbers, lost);
        }
        if let Some(room) = room.at_most.filter(|_| is_new) {
            account.meter.narrow(room, stamp);
        }
    }

    /// What a counter was charged of fallbacks.
    fn reported(&self, counter: usize) -> Reported {
        let account = self.accounts.get(&counter);
        account.map(|account| account.reported).unwrap_or_default()
    }

    /// A counter that is in use is charged what those were of fallbacks that it replaces, since it last heard of them.
    fn take_over(&mut self, entry: &Entry, counter: usize, formers: &[usize]) {
        let Entry { at, stamp, .. } = *entry;
        for former in formers {
            let now = self.reported(*former);
            self.with(counter, |account, numbers| {
                let before = account.taken_over.insert(*former, now).unwrap_or_default();
                let most = now.at_most - before.at_most;
                if most > 0 && account.meter.is_open(stamp) {
                    account.taken.settle(numbers, most, stamp);
                    account.used.settle(numbers, most, stamp);
                    account.meter.take_over(now.at_least - before.at_least, at, stamp);
                }
            });
        }
    }

    /// What those have left that a counter replaces.
    fn room_of_formers(&mut self, counter: usize, at: u64, stamp: u64) -> Room {
        let nature = &self.natures[&counter];
        let mut room = Room::default();
        for former in &nature.formers {
            let Some(account) = self.accounts.get_mut(&former.counter) else {
                continue;
            };
            if account.numbers.is_none() || former.out_of_reach {
                continue;
            }
            let least = account.taken.room(former.numbers, stamp);
            room.at_least = Some(room.at_least.map_or(least, |known| known.min(least)));
            room.leases.extend(account.taken.on_lease(stamp));
            if at < former.until {
                let most = account.meter.room(former.numbers, stamp);
                room.at_most = Some(room.at_most.map_or(most, |known| known.min(most)));
            }
        }
        room
    }

    fn take_for_all(&mut self, entry: &Entry) {
        if let What::Denied { local, levels } = &entry.what {
            return self.doubt(entry, levels, *local);
        }
        if matches!(entry.what, What::Began) {
            self.began.insert(entry.home, entry.stamp);
        }
        if !matches!(entry.what, What::WentBack) {
            self.changed.insert(entry.home, entry.at);
        }
        let natures = self.natures;
        let of_home = |(counter, _): &(&usize, &mut Account)| natures[counter].home == entry.home;
        for (_, account) in self.accounts.iter_mut().filter(of_home) {
            if matches!(entry.what, What::SetAhead | What::SetBack | What::WentBack) {
                account.meter.clock_was_set();
            }
            match entry.what {
                What::SetAhead => account.meter.spare_leases(entry.at),
                What::SetBack => account.meter.set_back(entry.stamp),
                What::Began => {
                    account.meter.began(entry.at, entry.stamp);
                    // Whoever asks next says how much was used up.
                    account.numbers = None;
                }
                _ => {}
            }
        }
    }

    fn with(&mut self, counter: usize, act: impl FnOnce(&mut Account, Numbers)) {
        if let Some(account) = self.accounts.get_mut(&counter)
            && let Some(numbers) = account.numbers
        {
            act(account, numbers);
        }
    }

    /// Asks whether a denial has a reason.
    fn doubt(&mut self, entry: &Entry, levels: &[Lack], local: bool) {
        let natures = self.natures;
        let changed = |lack: &Lack| self.changed.get(&natures[&lack.counter].home);
        let lately = |lack: &Lack| changed(lack).is_some_and(|changed| entry.at < changed + REMEMBERED);
        if local && levels.iter().any(lately) {
            return;
        }
        let doubts: Vec<_> = levels
            .iter()
            .map(|lack| self.wrong_with(lack, local, entry.at))
            .collect();
        if !doubts.contains(&None)
            && let (Some(lack), Some(Some(wrong))) = (levels.first(), doubts.first())
        {
            self.object_to(entry.at, Some(lack.counter), lack.stamp, wrong);
        }
    }

    /// What is wrong with a denial, if something is.
    fn wrong_with(&mut self, lack: &Lack, local: bool, at: u64) -> Option<String> {
        let Lack {
            counter,
            cost,
            by,
            stamp,
        } = *lack;
        let nature = &self.natures[&counter];
        let room = self.room_of_formers(counter, at, stamp);
        let account = self.accounts.get(&counter);
        let known = account.and_then(|account| account.numbers);
        // One that the store has forgotten, since its clock went far ahead, begins as used up again if what it replaces is
        // out of reach.
        let out_of_reach = nature.formers.iter().any(|former| former.out_of_reach);
        let forgotten = account.is_some_and(|account| account.taken.latest() + KEPT <= stamp);
        if out_of_reach && forgotten {
            return None;
        }
        // A node may remember a denial by what held before, or by older numbers than the store's.
        let told_lately = account.is_some_and(|account| at < account.told + REMEMBERED);
        let behind = known.is_some_and(|known| known.revision > by.revision);
        if local && (told_lately || behind || (known.is_none() && !nature.formers.is_empty())) {
            return None;
        }
        // Of two revisions the newer one holds; a node may know both.
        let by = match known {
            Some(known) if local => Numbers {
                limit: by.limit.min(known.limit),
                capacity: by.capacity.min(known.capacity),
                ..by
            },
            Some(known) if known.revision > by.revision => known,
            _ => by,
        };
        if by.limit == 0 || cost > by.capacity {
            return None;
        }
        let books = account.map(|account| (&account.taken, &account.used));
        let (mut taken, mut used) = books.map_or_else(
            || (Book::new(nature), Book::new(nature)),
            |(taken, used)| (taken.clone(), used.clone()),
        );
        if known.is_none() {
            for book in [&mut taken, &mut used] {
                if let Some(began) = self.began.get(&nature.home) {
                    book.use_up(by, *began);
                }
                if let Some(least) = room.at_least {
                    book.narrow(by, least, &room.leases, stamp);
                }
            }
        }
        let leased = nature.accuracy > 0;
        // A denial is remembered for a while, by a clock that may be slow.
        let patience = match (local, leased) {
            (false, _) => 0,
            (true, false) => MILLI,
            (true, true) => 60 * MILLI,
        };
        let longer = longer(nature);
        if taken.had_room(by, cost, stamp, (patience, longer)) {
            return Some(format!("{cost} was denied though nothing had taken the room"));
        }
        if self.calm {
            // On lease; of a bucket also leases that ended lately. While it is in use without a break they don't drain, and
            // there may be as many again each time in which it would have refilled.
            let busy = used.busy_for(by, stamp, 2);
            let halves = match nature.algorithm {
                _ if nature.is_bucket() => 5 + busy,
                // Leases that ended unspent with the window before are in its count, which fades.
                Algorithm::SlidingCounter => 4,
                _ => 2,
            };
            let part = u128::from(by.capacity) * u128::from(nature.accuracy) * halves;
            let slack = u64::try_from(part / u128::from(2 * BASIS)).unwrap_or(u64::MAX);
            let in_hand = account.map_or(0, |account| account.in_hand_since(at.saturating_sub(patience)));
            let slack = slack.saturating_add(in_hand);
            if used.had_room(by, cost.saturating_add(slack), stamp, (patience, longer)) {
                let left = used.room(by, stamp);
                return Some(format!(
                    "{cost} was denied while {left} was left, more than {slack}"
                ));
            }
        }
        None
    }

    fn object(&mut self, entry: &Entry, what: &str) {
        self.object_to(entry.at, entry.counter, entry.stamp, what);
    }

    fn object_to(&mut self, at: u64, counter: Option<usize>, stamp: u64, what: &str) {
        let nature = counter.map(|counter| &self.natures[&counter]);
        let kind = nature.map_or(String::new(), |nature| format!("{:?}", nature.algorithm));
        let counter = counter.unwrap_or(0);
        self.found.push(Violation {
            at,
            what: format!(
                "counter {counter} ({kind}) at {}.{:09}: {what}",
                stamp / SECOND,
                stamp % SECOND
            ),
        });
    }
}

/// How much longer than its window an entry of a log may stay: as long as its lease could have been held, and so do
/// those that came after it.
fn longer(nature: &Nature) -> u64 {
    if nature.algorithm != Algorithm::SlidingLog {
        return 0;
    }
    let hold = nature.window_ns / BASIS * u64::from(nature.accuracy) / 2;
    hold.max(nature.window_ns / 4).min(SECOND)
}

impl Account {
    fn new(nature: &Nature) -> Self {
        Self {
            meter: Meter::new(nature),
            taken: Book::new(nature),
            used: Book::new(nature),
            in_hand: Vec::new(),
            numbers: None,
            told: 0,
            reported: Reported::default(),
            taken_over: BTreeMap::new(),
        }
    }

    /// What requests had in hand at some time since.
    fn in_hand_since(&self, since: u64) -> u64 {
        let in_hand = self.in_hand.iter().filter(|(until, _)| *until >= since);
        in_hand.map(|(_, cost)| cost).sum()
    }
}
