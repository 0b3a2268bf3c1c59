//! A quota's counter as this node keeps it with the ledger: what was told, what is wanted next. Pure: the cell, the time
//! and what the ledger says are arguments.

use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_catalog::repository::{Ask, Granted, LedgerName, Replaced, Told, Unsettled};
use tollgate_core::{Allowance, BillingAnchor, Calendar, Cell, Chunk, CounterKey, Period, Timestamp};
use tollgate_counters::memory::{Note, Telling};

use super::size;

const SECOND: u64 = 1_000_000_000;
/// After so long without a request, what is held of a row that other nodes share is given back.
const IDLE: Duration = Duration::from_secs(30);
/// Whoever asked within so long before the end of a period will go on in the next.
const BRIEFLY: Duration = Duration::from_secs(10);

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
}

/// The limit on a counter, as it was last seen.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) limit: u64,
    pub(super) period: Period,
    pub(super) zone: TimeZone,
    pub(super) anchor: BillingAnchor,
    /// All decisions are to be made where all nodes see them.
    pub(super) exact: bool,
    /// How much room it may have at most if it is new to the ledger, and what it replaces there.
    pub(super) room: u64,
    pub(super) formers: Vec<Replaced>,
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
    pub(super) fn new(subject: Subject, terms: Terms, shared: bool, now: Timestamp) -> Self {
        Self {
            subject,
            terms,
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
        let known = self.generation > 0 && Allowance::of(seen).is_some();
        let told = if end == self.end { self.told } else { 0 };
        let spent = count.saturating_sub(told);
        // Something was given back that the ledger was told to be used.
        let unused = if known { told.saturating_sub(count) } else { 0 };
        let unspent = if end <= now.nanos() { 0 } else { seen.unspent() };
        let elapsed = now.nanos().saturating_sub(self.looked.nanos());
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
        if why != Why::Asked && [spent, unused, gives, wants] == [0; 4] {
            return None;
        }
        self.looked = now;
        let draft = Draft {
            ask: Ask {
                generation: if known { self.generation } else { 0 },
                spent,
                unused,
                owes: if known { seen.overspent().min(spent) } else { spent },
                gives,
                needs,
                wants,
                ..self.blank(now)
            },
            end,
            count,
            known,
        };
        Some((draft, (gives > 0).then(|| seen.without(gives))))
    }

    /// An ask for nothing.
    fn blank(&self, now: Timestamp) -> Ask {
        let Terms { zone, anchor, .. } = &self.terms;
        let calendar = Calendar { zone, anchor };
        let (start, end) = calendar.period(self.terms.period, now);
        Ask {
            name: self.subject.name,
            org: self.subject.org.clone(),
            label: self.subject.label.clone(),
            relabel: self.relabel,
            limit: self.terms.limit,
            period: (start.nanos(), end.nanos()),
            generation: 0,
            spent: 0,
            unused: 0,
            owes: 0,
            gives: 0,
            needs: 0,
            wants: 0,
            room: self.terms.room,
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
        let before = cell.unwrap_or_default();
        let target = size::target(self.rate, self.terms.limit, self.is_exact());
        let chunk = Chunk {
            end: told.row.ends,
            mark: told.row.mark,
            granted: told.granted,
            // Of a cell that nothing was known of, all was told by now.
            owed: if draft.known { told.owed } else { draft.count },
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
        u128::from(now.nanos().saturating_sub(self.moved.nanos())) > after.as_nanos()
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
