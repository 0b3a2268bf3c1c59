//! The store's side of a call, in Rust: what the script does, number for number.
//!
//! The simulator runs on it, and a test holds it against the script on a real server and against the oracle.
//! Nothing that serves uses it.

mod bucket;
mod counter;
mod former;
mod idle;
mod late;
mod log;
mod once;
mod record;

use std::collections::BTreeMap;

use tollgate_core::Mode;

use super::call::{Call, Done, Grant, Kind, Micros, Name, Part, Reply, Seen, Terms};
use super::record::RecordName;
use crate::memory::Commit;
use counter::Counter;
use once::Keys;
use record::Record;

/// A clock that went back by more than this is not waited for: what the slot knew is taken for lost.
pub const FAR_BACK: Micros = 10_000_000;
/// How far the clock runs before its highest reading is noted again.
pub const NOTED_EVERY: Micros = 10_000;

/// Who keeps a slot, and since when without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentinel {
    /// The server, as those who call it know it.
    pub owner: u64,
    /// When what is known of the slot began. It names the generation: counters of another one are cold. 0 for a
    /// slot that never lost anything.
    pub began: Micros,
    /// The highest time that was noted.
    pub highest: Micros,
}

/// A mistake that can be planted, to see whether it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A bucket drains below what it has on lease.
    LeasesDrain,
    /// A leased entry of a log is stamped when it is lent.
    LogAtGrant,
    /// A settled entry of a log is moved back to when it was lent.
    LogSettledAtGrant,
    /// A lease may be held past its window's end.
    HoldPastEnd,
    /// A debt beyond the burst is cut to it, and what of it a request gives back is credited all the same.
    CutIsCredited,
    /// What a bucket had time to drain counts for each node that let something through without the store.
    IdleTwice,
    /// Unspent tokens go straight back into a bucket, whatever it knows of them.
    BucketCredit,
    /// They go back as if they were of the oldest lease, whichever they are of.
    AnyLeaseReturns,
    /// A lease can be given back twice.
    ReturnTwice,
    /// A lease that is lent a second time, by a call that is run twice, takes the place of the first.
    LentOverAgain,
    /// A lease can be given back into another window.
    ReturnAcrossWindows,
    /// After a loss every counter is as good as new.
    WarmAfterLoss,
    /// A bucket that lost its past does not wait for what was leased from it.
    BucketColdWithoutLeases,
    /// A log that lost its past does not wait for what was leased from it.
    LogColdWithoutHold,
    /// Nobody looks whose data it is.
    FailoverUnnoticed,
    /// Nobody looks whether a slot has gone back to what it knew before.
    GoneBackUnnoticed,
    /// Whoever asks says by which revision, even an old one.
    StaleRevisionWins,
    /// The numbers of a newer revision are kept, and not which one it is.
    RevisionSlips,
    /// A bucket whose numbers change goes on as if nothing were on lease.
    ChangeForgetsLeases,
    /// A counter that replaces one of another slot begins as if there had been none.
    ForgetsOtherSlots,
    /// What a fallback of a replaced counter let through is not heard of by the one that replaces it.
    LateUnheard,
    /// A denied stack charges its first level.
    DeniedCharges,
    /// A call that comes too late is run all the same.
    RunsLate,
    /// What was settled is settled again.
    SettledTwice,
    /// A record of another generation counts.
    VoidRecordCounts,
    /// What was reserved in one window goes back into another.
    BackIntoAnyWindow,
    /// A request is carried out again though somebody has done so, or is at it.
    CarriedOutTwice,
}

/// A slot of the shared store.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// Its sentinel.
    pub sentinel: Option<Sentinel>,
    counters: BTreeMap<Name, Counter>,
    records: BTreeMap<RecordName, Record>,
    keys: Keys,
    /// What is wrong with it.
    pub bug: Option<Bug>,
}

impl Slot {
    /// A slot of a store that is used for the first time.
    pub fn installed(owner: u64) -> Self {
        Self {
            sentinel: Some(Sentinel {
                owner,
                began: 0,
                highest: 0,
            }),
            ..Self::default()
        }
    }

    /// Loses everything.
    pub fn flush(&mut self) {
        self.sentinel = None;
        self.counters.clear();
        self.records.clear();
        self.keys = Keys::default();
    }

    /// Runs a call that came over a connection to `owner` when the server's clock showed `time`.
    pub fn run(&mut self, owner: u64, time: Micros, call: &Call) -> Reply {
        let highest = self.sentinel.map_or(0, |sentinel| sentinel.highest);
        let back = highest > time.saturating_add(FAR_BACK);
        let now = if back { time } else { time.max(highest) };
        if now > call.not_after && self.bug != Some(Bug::RunsLate) {
            return Reply::Late { now };
        }
        let stale = |terms: &Terms| {
            let [_, _, next] = terms.period;
            terms.kind == Kind::Quota && now >= next
        };
        if call.subjects.iter().any(|subject| stale(&subject.terms)) {
            return Reply::Late { now };
        }
        let began = self.guard(owner, now, back, call.heard);
        let mut subjects = self.load(call, began, now);
        for given in &call.returns {
            subjects[given.subject].take_back(given, now);
        }
        let mut verdicts = Vec::new();
        for need in &call.needs {
            let parts = need.parts.as_slice();
            let looks: Vec<_> = parts
                .iter()
                .map(|part| subjects[part.subject].look(part, now))
                .collect();
            let passes = |(part, look): (&Part, &counter::Look)| look.fits || part.mode != Mode::Enforce;
            let allowed = parts.iter().zip(&looks).all(passes);
            let mut charged = Vec::new();
            let mut seen = Vec::new();
            for (place, (part, look)) in parts.iter().zip(&looks).enumerate() {
                let mut after = look.state;
                let takes = part.cost > 0 && (look.fits || part.mode == Mode::Soft);
                let planted = self.bug == Some(Bug::DeniedCharges) && place == 0;
                if (allowed || planted) && takes {
                    let written = need.commit == Commit::Charge && !charged.contains(&part.subject);
                    after = subjects[part.subject].charge(part, look, now, written);
                    charged.push(part.subject);
                }
                seen.push(Seen {
                    fits: look.fits,
                    state: after,
                });
            }
            verdicts.push(seen);
        }
        let mut grants = Vec::new();
        for want in &call.wants {
            let counter = &mut subjects[want.subject];
            let (amount, hold) = counter.lend(want, now);
            grants.push(Grant {
                amount,
                hold,
                state: counter.state(want.is_soft(), now),
            });
        }
        for (subject, mut counter) in call.subjects.iter().zip(subjects) {
            if counter.is_changed() {
                counter.keep(now);
                self.counters.insert(subject.name, counter);
            }
        }
        Reply::Done(Done {
            now,
            began,
            verdicts,
            grants,
        })
    }

    /// Sees to the sentinel: a missing one, another owner, a clock far back or one that has shown more already begin a
    /// new generation.
    fn guard(&mut self, owner: u64, now: Micros, back: bool, [began, heard]: [Micros; 2]) -> Micros {
        let old = self.sentinel;
        let Some(mut known) = self.goes_on(owner, back, [began, heard]) else {
            // Later than every one before, even if the clock waits for what it once showed.
            let least = old.filter(|_| !back).map_or(0, |old| old.began + 1);
            let began = now.max(least);
            self.sentinel = Some(Sentinel {
                owner,
                began,
                highest: now,
            });
            return began;
        };
        if now >= known.highest + NOTED_EVERY {
            known.highest = now;
            self.sentinel = Some(known);
        }
        known.began
    }

    /// The sentinel, if what is known of the slot goes on.
    fn goes_on(&self, owner: u64, back: bool, [began, heard]: [Micros; 2]) -> Option<Sentinel> {
        let unnoticed = self.bug == Some(Bug::FailoverUnnoticed);
        let older = |old: &Sentinel| {
            let less = old.began < began || (old.began == began && old.highest + NOTED_EVERY <= heard);
            less && self.bug != Some(Bug::GoneBackUnnoticed)
        };
        self.sentinel
            .filter(|old| (old.owner == owner || unnoticed) && !back && !older(old))
    }

    /// The counters of a call as they stand.
    fn load(&self, call: &Call, began: Micros, now: Micros) -> Vec<Counter> {
        let began_as = if self.bug == Some(Bug::WarmAfterLoss) {
            0
        } else {
            began
        };
        let kept = |name: &Name| {
            let counter = self.counters.get(name)?;
            (counter.began() == began && counter.is_kept(now)).then_some(counter)
        };
        let mut subjects: Vec<(Counter, bool)> = Vec::new();
        for subject in &call.subjects {
            let forgets = self.bug == Some(Bug::ForgetsOtherSlots);
            let left = if forgets { 0 } else { subject.left };
            let (mut counter, known) = match kept(&subject.name) {
                Some(counter) => (counter.clone(), true),
                None => {
                    let lost = began_as.max(left.min(now));
                    (Counter::cold(began, lost, &subject.terms, self.bug), false)
                }
            };
            let [from, tokens, _] = counter.numbers;
            let changed = counter.agree(&subject.terms, now);
            if !known && left > 0 {
                // Once, whatever its clock says who tells of it.
                counter.change();
            }
            counter.settle(now);
            if subject.terms.kind.is_bucket() && !changed && (known || from == 0) {
                counter.note_idle(from, tokens, now);
            }
            subjects.push((counter, known));
        }
        charge_fallbacks(call, &mut subjects, began, now);
        subjects.into_iter().map(|(counter, _)| counter).collect()
    }
}

/// Charges what fallbacks let through. Counters that replace others hear of it, too: those that are untouched are narrowed to
/// what the others have left, those that are in use take over what these were charged since. So the others come first.
fn charge_fallbacks(call: &Call, subjects: &mut [(Counter, bool)], began: Micros, now: Micros) {
    let replaces = |place: usize| !call.subjects[place].formers.is_empty();
    let is_replaced = |place: usize| {
        let mut others = call.subjects.iter();
        others.any(|other| other.formers.contains(&place))
    };
    let mut places: Vec<usize> = (0..subjects.len()).collect();
    places.sort_by_key(|place| (replaces(*place), !is_replaced(*place)));
    for place in places {
        let formers = call.subjects[place].formers.iter().copied();
        let reported =
            formers.filter_map(|former| subjects[former].0.reported(call.subjects[former].name, now));
        let reported: Vec<_> = reported.collect();
        let untouched = !subjects[place].1;
        if untouched {
            let formers = call.subjects[place].formers.iter();
            let formers = formers.map(|former| &subjects[*former]);
            let known = formers.filter(|(former, known)| *known || former.is_changed());
            let known: Vec<_> = known.map(|(former, _)| former).collect();
            let on_lease = known.iter().map(|former| former.on_lease(now));
            let on_lease = on_lease.fold((0, 0), former::both);
            if let Some(room) = known.iter().map(|former| former.remaining(now)).min() {
                subjects[place].0.narrow(room, on_lease, now);
            }
        }
        let (counter, _) = &mut subjects[place];
        counter.take_over(&reported, untouched, now);
        for settlement in call
            .settlements
            .iter()
            .filter(|settlement| settlement.subject == place)
        {
            // Who has not heard of this generation knows no time of it, nor does anybody if the clock was set back.
            let knows_time = call.heard[0] == began && settlement.since + settlement.age <= now;
            counter.settle_fallback(settlement, knows_time, now);
        }
    }
}
