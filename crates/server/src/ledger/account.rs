//! A quota's counter as this node keeps it with the ledger: what was told, what is wanted next. Pure: the cell, the time
//! and what the ledger says are arguments.

use std::sync::Arc;
use std::time::Duration;

use tollgate_catalog::repository::{Ask, Granted, LedgerName, Told, Unsettled};
use tollgate_core::{Allowance, Cell, Chunk, CounterKey, Timestamp};
use tollgate_counters::memory::{Note, Telling};

use super::plant::{Bug, is_planted};
use super::size;
use super::terms::{Asker, InForce, Terms};

const SECOND: u64 = 1_000_000_000;
/// After so long without a request, what is held of a row that other nodes share is given back.
const IDLE: Duration = Duration::from_secs(30);
/// Whoever asked within so long before the end of a period will go on in the next.
const BRIEFLY: Duration = Duration::from_secs(10);
/// For so long thresholds are not yet parts of a limit that was lowered: what was used may be corrected together with it.
const GRACE: Duration = Duration::from_secs(1);

/// What a counter is about.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) key: CounterKey,
    pub(super) home: u64,
    pub(super) name: LedgerName,
    pub(super) org: String,
    /// The policy that the label names.
    pub(super) policy: String,
    /// As JSON.
    pub(super) label: String,
    /// A request that it counts, by which it is found out what limits it.
    pub(super) asker: Option<Arc<Asker>>,
}

/// A counter of the ledger.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) subject: Subject,
    pub(super) terms: Terms,
    /// What requests wait for.
    pub(super) needs: u64,
    /// More is to be taken.
    pub(super) wanted: bool,
    /// The ledger was not told the label.
    pub(super) relabel: bool,
    /// Other nodes may use the same ledger.
    shared: bool,
    generation: u64,
    /// When the period ends that the ledger was last asked about, and up to which count it was told.
    pub(super) end: u64,
    told: u64,
    /// What is spent in a second.
    rate: u64,
    /// When the ledger was last asked, and when something was last seen to be spent.
    looked: Timestamp,
    moved: Timestamp,
    /// When the ledger last said something.
    pub(super) heard: Timestamp,
    /// The end of the period in which it was made, and what its cell then began with: what those had used that it replaces.
    began: (u64, u64),
    /// The change of policies that its terms are of, and until when they are in force. The change is 0 if unknown.
    pub(super) change: u64,
    pub(super) until: u64,
    /// The limit before it was last lowered, and when that was.
    lowered: (u64, Timestamp),
    /// The limit that thresholds were last looked for by.
    judged: u64,
}

/// A cell as the ledger knows it.
struct Reckoned {
    /// The ledger was asked about its period, by this account.
    known: bool,
    /// It was asked by another.
    strange: bool,
    /// The count that it was told.
    told: u64,
    /// What was spent since.
    spent: u64,
}

/// An ask that is under way, with what it was made of.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) ask: Ask,
    /// The cell's period and count.
    end: u64,
    count: u64,
    /// The ledger has been asked about that period before.
    known: bool,
}

impl Account {
    /// A counter that is new to this node. `fresh` says that it has no cell yet.
    pub(super) fn new(subject: Subject, terms: Terms, shared: bool, fresh: bool, now: Timestamp) -> Self {
        let used = if fresh {
            terms.limit.saturating_sub(terms.room)
        } else {
            0
        };
        let began = (terms.period(now).1.nanos(), used);
        Self {
            subject,
            terms,
            began,
            change: 0,
            until: 0,
            lowered: (0, Timestamp::EPOCH),
            judged: 0,
            needs: 0,
            wanted: false,
            relabel: true,
            shared,
            generation: 0,
            end: 0,
            told: 0,
            rate: 0,
            looked: now,
            moved: now,
            heard: Timestamp::EPOCH,
        }
    }

    /// What to say to the ledger of a cell, and the cell if that changes before it is said. `None` if there is nothing
    /// to say.
    pub(super) fn draft(
        &mut self,
        cell: Option<Cell>,
        now: Timestamp,
        why: Why,
    ) -> Option<(Draft, Option<Cell>)> {
        let seen = cell.unwrap_or_default();
        let [end, count, _] = seen.0;
        let why = match why {
            Why::Look if self.wanted || self.needs > 0 => Why::Asked,
            why => why,
        };
        let Reckoned {
            known,
            strange,
            told,
            spent,
        } = self.reckon(seen);
        // Something was given back that the ledger was told to be used.
        let unused = if known { told.saturating_sub(count) } else { 0 };
        let gone = strange || end <= now.nanos();
        let unspent = if gone { 0 } else { seen.unspent() };
        // A clock that was set back says nothing of how long ago it was.
        let elapsed = now.nanos().checked_sub(self.looked.nanos()).unwrap_or(SECOND);
        if spent > 0 {
            self.moved = now;
        }
        let (wants, gives) = match why {
            Why::Asked if self.wanted => (self.target(spent, elapsed).saturating_sub(unspent), 0),
            Why::Ending => (0, unspent),
            Why::Look if elapsed < SECOND => return None,
            // Nothing is held ahead of it: what nobody waits for was meant for a request that was refused elsewhere.
            Why::Asked | Why::Look if self.is_exact() && self.needs == 0 => (0, unspent),
            Why::Look if spent > 0 => {
                let target = self.target(spent, elapsed);
                let low = unspent < target.div_ceil(2);
                (if low { target - unspent } else { 0 }, 0)
            }
            // Whoever was just at it will go on in the next period.
            Why::Look if end <= now.nanos() && end == self.end && !self.is_idle(now, BRIEFLY) => {
                (self.target(spent, elapsed), 0)
            }
            Why::Look if self.shared && self.is_idle(now, IDLE) => (0, unspent),
            Why::Asked | Why::Look => (0, 0),
        };
        let needs = std::mem::take(&mut self.needs);
        // Nobody waits any more at the end.
        let needs = if why == Why::Ending { 0 } else { needs };
        self.wanted = false;
        // Of a limit that was lowered a part may have been reached that nobody was told of.
        let lower = (1..self.judged).contains(&self.alert_limit(now));
        let judged = why == Why::Look && known && end > now.nanos() && lower;
        if why != Why::Asked && !judged && [spent, unused, gives, wants] == [0; 4] {
            return None;
        }
        self.looked = now;
        let blank = self.blank(now);
        let draft = Draft {
            ask: Ask {
                generation: if known { self.generation } else { 0 },
                until: if is_planted(Bug::OldCellOwed) {
                    u64::MAX
                } else {
                    end
                },
                spent,
                unused,
                owes: if known { seen.overspent().min(spent) } else { spent },
                gives,
                needs,
                wants,
                ..blank
            },
            end,
            count,
            known,
        };
        Some((draft, (gives > 0).then(|| seen.without(gives))))
    }

    /// What of a cell the ledger knows.
    fn reckon(&self, cell: Cell) -> Reckoned {
        let [end, count, _] = cell.0;
        let allowed = Allowance::of(cell).is_some();
        let known = self.generation > 0 && allowed;
        // Of what it was allowed the ledger knows, but this account does not: it was forgotten meanwhile.
        let strange = allowed && !known && !is_planted(Bug::OldCellOwed);
        let told = if end == self.end { self.told } else { 0 };
        let inherited = if !allowed && end == self.began.0 {
            self.began.1
        } else {
            0
        };
        let spent = if strange {
            0
        } else {
            count.saturating_sub(told.max(inherited))
        };
        Reckoned {
            known,
            strange,
            told,
            spent,
        }
    }

    /// What is to be told later of a cell that was charged without the ledger in a period that it knows nothing of, and
    /// how much of that the ask says that is under way. By then another limit may be in force, so thresholds are not looked
    /// for.
    pub(super) fn untold(
        &self,
        cell: Option<Cell>,
        under_way: Option<&Draft>,
        now: Timestamp,
    ) -> Option<(Ask, u64)> {
        let cell = cell.filter(|cell| Allowance::of(*cell).is_none() && cell.0[0] > now.nanos())?;
        let [end, ..] = cell.0;
        let spent = self.reckon(cell).spent;
        let under_way = under_way.filter(|draft| draft.end == end && !draft.known);
        let ask = Ask {
            alert_limit: 0,
            until: end,
            spent,
            owes: spent,
            ..self.blank(now)
        };
        (spent > 0).then(|| (ask, under_way.map_or(0, |draft| draft.ask.spent)))
    }

    /// An ask for nothing.
    fn blank(&self, now: Timestamp) -> Ask {
        let (start, end) = self.terms.period(now);
        // What it replaces was used in the period in which it was replaced.
        let room = if now.nanos() < self.began.0 {
            self.terms.room
        } else {
            u64::MAX
        };
        Ask {
            name: self.subject.name,
            org: self.subject.org.clone(),
            label: self.subject.label.clone(),
            relabel: self.relabel,
            limit: self.terms.limit,
            alert_limit: self.alert_limit(now),
            period: (start.nanos(), end.nanos()),
            generation: 0,
            until: 0,
            spent: 0,
            unused: 0,
            owes: 0,
            gives: 0,
            needs: 0,
            wants: 0,
            room,
            formers: self.terms.formers.clone(),
        }
    }

    /// The cell after the ledger has answered.
    pub(super) fn hear(
        &mut self,
        draft: &Draft,
        told: &Told,
        cell: Option<Cell>,
        now: Timestamp,
    ) -> Option<Cell> {
        self.heard = now;
        self.relabel &= draft.ask.label != self.subject.label;
        self.generation = told.row.generation;
        if told.row.generation == 0 {
            return None;
        }
        if draft.ask.alert_limit > 0 {
            self.judged = draft.ask.alert_limit;
        }
        let before = cell.unwrap_or_default();
        let [end, ..] = before.0;
        let allowed = Allowance::of(before).is_some();
        if !allowed && told.row.ends <= now.nanos() && end > now.nanos() {
            // The answer is about a period that has ended by now, and in the next something was let through.
            return None;
        }
        let target = size::target(self.rate, self.terms.limit, self.is_exact());
        let chunk = Chunk {
            end: told.row.ends,
            mark: told.row.mark,
            granted: told.granted,
            owed: match allowed {
                true => told.owed,
                // Of a cell that nothing was known of, all was told by now.
                false if end == draft.end => draft.count,
                false => 0,
            },
            low: size::low(target),
        };
        let after = before.topped_up(&chunk);
        self.end = after.0[0];
        self.told = draft.told(before, after);
        Some(after)
    }

    /// Forgets what was heard of a counter whose cell has no place here. Says what the ledger is to have back.
    pub(super) fn lose_cell(&mut self, told: &Told) -> Option<Unsettled> {
        (self.generation, self.end, self.told) = (0, 0, 0);
        (told.granted > 0).then(|| Unsettled {
            name: self.subject.name,
            generation: told.row.generation,
            used: 0,
            mark: -told.granted.cast_signed(),
        })
    }

    /// The cell after it was found out whether an ask was done whose answer was lost, and what it was granted.
    pub(super) fn find_out(
        &mut self,
        draft: &Draft,
        done: Option<Granted>,
        cell: Option<Cell>,
    ) -> Option<Cell> {
        let before = cell.filter(|cell| cell.0[0] == draft.end)?;
        let Some(granted) = done else {
            return (draft.ask.gives > 0).then(|| before.with(draft.ask.gives));
        };
        (self.end, self.told) = (draft.end, draft.count);
        if !draft.known {
            return None;
        }
        let same = granted.generation == self.generation;
        let more = if same { granted.amount } else { 0 };
        Some(before.with(draft.ask.owes.saturating_add(more)))
    }

    /// As an exchange says it that granted nothing to anybody.
    pub(super) fn granted_nothing(&self) -> Granted {
        Granted {
            generation: self.generation,
            amount: 0,
        }
    }

    /// What a journal is to say of a cell, so that nothing is lost should this process end.
    pub(super) fn note(&self, cell: Option<Cell>, telling: Option<Telling>) -> Note {
        let cell = cell.filter(|cell| cell.0[0] == self.end);
        let left = cell.and_then(|cell| Some((cell.headroom()?, cell.count())));
        let blank = Note {
            name: self.subject.name,
            telling,
            ..Note::default()
        };
        left.map_or(blank, |(left, count)| Note {
            generation: self.generation,
            left,
            span: left.saturating_add(count.wrapping_sub(self.told).cast_signed()),
            ..blank
        })
    }

    /// Whether nobody has spent anything of it for so long.
    fn is_idle(&self, now: Timestamp, after: Duration) -> bool {
        !is_within(self.moved, now, after)
    }

    /// Somebody is about to spend of it.
    pub(super) fn touch(&mut self, now: Timestamp) {
        self.moved = now;
    }

    /// Takes over what is in force by a change of policies, until an instant.
    pub(super) fn renew(&mut self, terms: InForce, now: Timestamp) {
        let InForce {
            limit,
            zone,
            anchor,
            exact,
        } = terms;
        if limit < self.terms.limit {
            self.lowered = (self.alert_limit(now), now);
        }
        // Under a larger limit others may use more without reaching a part of it.
        if self.judged > 0 {
            self.judged = self.judged.max(limit);
        }
        (self.terms.limit, self.terms.exact) = (limit, exact);
        (self.terms.zone, self.terms.anchor) = (zone, anchor);
    }

    /// The limit that thresholds are parts of; 0 while it is not known what that is.
    fn alert_limit(&self, now: Timestamp) -> u64 {
        let (before, since) = self.lowered;
        if self.change == 0 && self.subject.asker.is_some() && !is_planted(Bug::TermsStay) {
            0
        } else if is_within(since, now, GRACE) {
            self.terms.limit.max(before)
        } else {
            self.terms.limit
        }
    }

    /// Whether its terms may have changed since they were last looked at.
    pub(super) fn is_stale(&self, change: u64, now: Timestamp) -> bool {
        self.change != change || self.until <= now.nanos()
    }

    /// Whether its period is over and nobody has gone on in the next.
    pub(super) fn is_forgettable(&self, now: Timestamp) -> bool {
        self.end <= now.nanos() && self.is_idle(now, IDLE)
    }

    /// What should be held after `spent` was in `elapsed` nanoseconds. The rate is quick to rise and slow to fall.
    fn target(&mut self, spent: u64, elapsed: u64) -> u64 {
        let elapsed = elapsed.max(SECOND / 20);
        let rate = u128::from(spent) * u128::from(SECOND) / u128::from(elapsed);
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX).max(self.rate / 2);
        size::target(self.rate, self.terms.limit, self.is_exact())
    }

    /// Whether nothing is to be taken ahead. A node that is alone is exact anyway.
    fn is_exact(&self) -> bool {
        self.shared && self.terms.exact
    }
}

/// Whether two instants are no further apart, whichever came first by the clock.
fn is_within(one: Timestamp, other: Timestamp, time: Duration) -> bool {
    u128::from(one.nanos().abs_diff(other.nanos())) <= time.as_nanos()
}

/// Why the ledger may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Somebody waits, or it runs low.
    Asked,
    /// It is looked at now and then.
    Look,
    /// This node ends.
    Ending,
}

impl Draft {
    /// What a journal is to say of it, as one of those that an exchange is about.
    pub(super) fn telling(&self, place: usize) -> Telling {
        Telling {
            place,
            used: self.ask.spent.wrapping_sub(self.ask.unused).cast_signed(),
            owes: self.ask.owes,
            gives: self.ask.gives,
        }
    }

    /// What was told of a cell, of what it counts after the ledger has answered. Meanwhile more may have been spent of
    /// it, and something given back.
    fn told(&self, before: Cell, after: Cell) -> u64 {
        let meanwhile = if before.0[0] == self.end {
            (before.count(), self.count)
        } else if Allowance::of(before).is_none() {
            (before.count(), 0)
        } else {
            (0, 0)
        };
        after
            .count()
            .saturating_add(meanwhile.1)
            .saturating_sub(meanwhile.0)
    }
}
