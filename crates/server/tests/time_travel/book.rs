//! What an org has used, as this suite has it: the oracle. It knows the calendar, and what each answer must say.

use std::collections::HashMap;

use serde_json::Value;

use crate::calendar::{Calendar, Window, month, text};
use crate::common::server::limit;
use crate::world::Timed;

/// Why an answer is wrong.
pub type Fault = String;

/// Who counts: an org, or one of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Org,
    App,
    Key,
    User,
}

pub const SCOPES: [Scope; 4] = [Scope::Org, Scope::App, Scope::Key, Scope::User];

impl Scope {
    /// As a policy says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Org => "org",
            Self::App => "app",
            Self::Key => "key",
            Self::User => "user",
        }
    }
}

/// A quota of one org.
#[derive(Debug, Clone)]
pub struct Quota {
    pub id: String,
    pub window: Window,
    pub scope: Scope,
    pub limit: u64,
    pub mode: &'static str,
    pub exact: bool,
}

/// What was used in a period. What is reserved was used, too.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// In seconds; 0 if nothing was counted yet.
    pub end: i64,
    pub start: i64,
    pub used: u64,
    pub reserved: u64,
    /// Debited to a server that has forgotten it, since the period was over by its clock before that was set back.
    held: u64,
}

impl Count {
    /// What can't be used any more.
    fn gone(&self) -> u64 {
        self.used + self.held
    }
}

/// A charge of which something may go back: what it cost, and the counts with the ends that their periods had.
#[derive(Debug, Clone)]
pub struct Charge {
    pub cost: u64,
    pub at: i64,
    pub counts: Vec<(Place, i64)>,
}

/// A quota, and which caller.
pub type Place = (usize, usize);

/// What decisions of one month came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub allowed: u64,
    pub denied: u64,
    pub cost: u64,
}

/// An org's book.
#[derive(Debug, Clone)]
pub struct Book {
    pub calendar: Calendar,
    pub quotas: Vec<Quota>,
    pub counts: HashMap<Place, Count>,
    /// By year and month of the org's clock.
    pub months: HashMap<(u32, u32), Sums>,
    /// A decision was made so near to the turn of a month that nobody knows in which one.
    pub vague: bool,
    /// What the clock showed before it was set back. The server may have begun the period of that time by itself.
    pub latest: Option<i64>,
}

impl Book {
    pub fn new(calendar: Calendar, quotas: Vec<Quota>) -> Self {
        Self {
            calendar,
            quotas,
            counts: HashMap::new(),
            months: HashMap::new(),
            vague: false,
            latest: None,
        }
    }

    /// The count of a quota for a caller.
    pub fn place(&self, quota: usize, caller: usize) -> Place {
        let apart = self.quotas[quota].scope != Scope::Org;
        (quota, if apart { caller } else { 0 })
    }

    /// What a count is at a time, in milliseconds: nothing, if its period is over.
    pub fn count(&self, place: Place, time: i64) -> Count {
        let known = self.counts.get(&place).copied().unwrap_or_default();
        if time < known.end * 1_000 {
            return known;
        }
        self.fresh(place, time)
    }

    /// What a count may be between two times, by the end of its period as it was told.
    pub fn told(&self, place: Place, (sent, heard): (i64, i64), end: &Value) -> Result<Count, Fault> {
        let mut counts = vec![self.count(place, sent), self.count(place, heard)];
        counts.extend(self.latest.map(|latest| self.count(place, latest)));
        let ends: Vec<String> = counts.iter().map(|count| text(count.end)).collect();
        let right = counts
            .into_iter()
            .zip(&ends)
            .find(|(_, right)| *end == right.as_str());
        let id = &self.quotas[place.0].id;
        right
            .map(|(count, _)| count)
            .ok_or_else(|| format!("{id}: the period should end at one of {ends:?}"))
    }

    /// A period that begins with nothing used.
    fn fresh(&self, place: Place, time: i64) -> Count {
        let (start, end) = self
            .calendar
            .period(self.quotas[place.0].window, time.div_euclid(1_000));
        Count {
            end,
            start,
            ..Count::default()
        }
    }

    /// Holds a decision on a caller's request against the book, and notes what it charged.
    pub fn decided(&mut self, caller: usize, cost: u64, timed: &Timed) -> Result<Option<Charge>, Fault> {
        let status = timed.answer.status;
        if !matches!(status, 200 | 429) {
            return Err(format!("{status}: {}", timed.answer.text()));
        }
        let decision = timed.answer.json();
        let places: Vec<Place> = (0..self.quotas.len())
            .map(|quota| self.place(quota, caller))
            .collect();
        for place in &places {
            self.turn(*place, cost, &decision, timed)?;
        }
        let fits = |place: &Place| self.counts[place].gone() + cost <= self.quotas[place.0].limit;
        let is = |place: &Place, mode: &str| self.quotas[place.0].mode == mode;
        let refuses = |place: &&Place| cost > 0 && is(place, "enforce") && !fits(place);
        let refusing: Vec<Place> = places.iter().filter(refuses).copied().collect();
        // A shadow limit counts as if it were enforced.
        let counts = |place: &&Place| cost > 0 && (fits(place) || is(place, "soft"));
        let charged: Vec<Place> = places.iter().filter(counts).copied().collect();
        let allowed = refusing.is_empty();
        if allowed != (status == 200) {
            return Err(format!(
                "allowed should be {allowed} for {cost}, by {:?}: {decision}",
                self.counts
            ));
        }
        self.add_up(cost, allowed, timed);
        if !allowed {
            self.waits(&refusing, timed, &decision)?;
        }
        for place in charged.iter().filter(|_| allowed) {
            self.counts.entry(*place).or_default().used += cost;
        }
        for place in &places {
            let (quota, count) = (&self.quotas[place.0], self.counts[place]);
            let told = &limit(&decision, &quota.id)["remaining"];
            let left = quota.limit.saturating_sub(count.gone());
            if told.as_u64() != Some(left) {
                return Err(format!("{}: remaining should be {left}: {decision}", quota.id));
            }
        }
        let ends = |place: &Place| (*place, self.counts[place].end);
        Ok((allowed && cost > 0).then(|| Charge {
            cost,
            at: timed.sent,
            counts: charged.iter().map(ends).collect(),
        }))
    }

    /// Finds out in which period a decision was made on a count, and begins it if it is a new one.
    fn turn(&mut self, place: Place, cost: u64, decision: &Value, timed: &Timed) -> Result<(), Fault> {
        let quota = &self.quotas[place.0];
        let limit = limit(decision, &quota.id);
        let count = self.told(place, (timed.sent, timed.heard), &limit["resetAt"]);
        let mut count = count.map_err(|fault| format!("{fault}: {decision}"))?;
        let was_over = |latest: i64| count.end * 1_000 <= latest;
        if self.latest.is_some_and(was_over) {
            // What it held of that period it has forgotten: less is left then, never more.
            let charged = decision["allowed"] == true && limit["violated"] == false;
            let told = limit["remaining"].as_u64().unwrap_or(0) + if charged { cost } else { 0 };
            count.held = quota.limit.saturating_sub(count.used).saturating_sub(told);
        }
        self.counts.insert(place, count);
        Ok(())
    }

    /// A denial says how long to wait: until the last of the periods ends that refuse it.
    fn waits(&self, refusing: &[Place], timed: &Timed, decision: &Value) -> Result<(), Fault> {
        let end = refusing
            .iter()
            .map(|place| self.counts[place].end)
            .max()
            .unwrap_or(0)
            * 1_000;
        let wait = decision["retryAfterMs"].as_i64().unwrap_or(-1);
        let header = timed
            .answer
            .header("retry-after")
            .and_then(|header| header.parse::<i64>().ok());
        let right = (end - timed.heard..=end - timed.sent + 1).contains(&wait);
        if !right || header != Some((wait + 999) / 1_000) {
            return Err(format!(
                "the wait should be until {}, not {header:?} s: {decision}",
                text(end / 1_000)
            ));
        }
        Ok(())
    }

    /// Notes what of a charge was not used, at a time: it goes back to periods that still run.
    pub fn give_back(&mut self, charge: &Charge, amount: u64, time: i64) {
        for (place, end) in &charge.counts {
            let count = self.counts.entry(*place).or_default();
            if count.end == *end && time < end * 1_000 {
                count.used -= amount;
            }
        }
        let of_month = month(&self.calendar.zone, charge.at.div_euclid(1_000));
        self.months.entry(of_month).or_default().cost -= amount;
    }

    /// Notes that a charge is reserved, or no longer.
    pub fn reserve(&mut self, charge: &Charge, open: bool) {
        for (place, end) in &charge.counts {
            let count = self.counts.entry(*place).or_default();
            if count.end == *end {
                count.reserved = if open {
                    count.reserved + charge.cost
                } else {
                    count.reserved - charge.cost
                };
            }
        }
    }

    fn add_up(&mut self, cost: u64, allowed: bool, timed: &Timed) {
        let [early, late] =
            [timed.sent, timed.heard].map(|time| month(&self.calendar.zone, time.div_euclid(1_000)));
        self.vague |= early != late;
        let sums = self.months.entry(early).or_default();
        sums.allowed += u64::from(allowed);
        sums.denied += u64::from(!allowed);
        sums.cost += if allowed { cost } else { 0 };
    }
}
