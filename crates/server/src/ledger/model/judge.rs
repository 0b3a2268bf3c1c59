//! The judge: counts what was let through by itself, and knows limits and calendars by its own arithmetic.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tollgate_catalog::repository::{Ask, LedgerName, Row};
use tollgate_core::Timestamp;

use super::database::{ALERTS, Database};
use super::world::{DAY_NS, HOUR_NS, MODES, ORGS};

/// A counter: the places of its org and of its fail mode.
pub(super) type Counter = (usize, usize);

/// What is in force for an org.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) limit: u64,
    /// Hours that its midnight is behind that of UTC.
    pub(super) west: u64,
}

impl Terms {
    /// When the day ends that runs at an instant.
    pub(super) fn day_end(self, now: u64) -> u64 {
        let west = self.west * HOUR_NS;
        (now - west) / DAY_NS * DAY_NS + DAY_NS + west
    }
}

/// What was let through of a counter in a period.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    covered: u64,
    fallback: u64,
}

pub(super) struct Judge {
    /// Since when each org has had which terms.
    pub(super) terms: Vec<Vec<(u64, Terms)>>,
    sums: HashMap<(Counter, u64), Sum>,
    names: HashMap<Counter, LedgerName>,
    /// Periods of counters of which somebody was killed who may have known more.
    unsure: HashSet<(Counter, u64)>,
    /// Counters of which a grant was perhaps lost, and in which period.
    stranded: HashSet<(Counter, u64)>,
    /// Counters of which something was told for a run that has ended, and nobody has looked for thresholds since.
    unlooked: HashSet<LedgerName>,
    /// What was let through in the present outage of counters with `local`, where all nodes knew of each other.
    outage: Option<HashMap<Counter, u64>>,
    pub(super) allowed: u64,
    pub(super) problem: Option<String>,
}

impl Judge {
    pub(super) fn new(terms: Terms, now: u64) -> Self {
        Self {
            terms: vec![vec![(now, terms)]; ORGS.len()],
            sums: HashMap::new(),
            names: HashMap::new(),
            unsure: HashSet::new(),
            stranded: HashSet::new(),
            unlooked: HashSet::new(),
            outage: None,
            allowed: 0,
            problem: None,
        }
    }

    pub(super) fn present(&self, org: usize) -> Terms {
        self.terms[org].last().unwrap().1
    }

    fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    /// The largest limit that an org had since an instant.
    fn largest(&self, org: usize, since: u64) -> u64 {
        let history = &self.terms[org];
        let ends = history.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        let limits = history.iter().zip(ends).filter(|(_, end)| *end > since);
        limits.map(|((_, terms), _)| terms.limit).max().unwrap()
    }

    pub(super) fn outage_begins(&mut self, steady: bool) {
        self.outage = steady.then(HashMap::new);
    }

    /// Whoever is started anew has its share anew.
    pub(super) fn outage_ends(&mut self) {
        self.outage = None;
    }

    /// Something was let through. `runs` is the end of the row's period, if that runs.
    pub(super) fn allow(
        &mut self,
        counter: Counter,
        cost: u64,
        (end, runs): (u64, Option<u64>),
        fallback: bool,
    ) {
        self.allowed += 1;
        if let Some(runs) = runs.filter(|runs| *runs != end) {
            // By another calendar than that of the period that runs: it counts in one or the other.
            assert!(fallback, "what the ledger allows is of the period that runs");
            self.unsure.extend([(counter, runs), (counter, end)]);
        }
        let sum = self.sums.entry((counter, end)).or_default();
        if fallback {
            sum.fallback += cost;
        } else {
            sum.covered += cost;
        }
        let covered = sum.covered;
        let limit = self.largest(counter.0, end - DAY_NS);
        if covered > limit {
            self.fail(format!(
                "{covered} of {limit} were let through of {counter:?} within the ledger"
            ));
        }
        if fallback
            && MODES[counter.1] == "local"
            && let Some(outage) = &mut self.outage
        {
            let all = outage.entry(counter).or_default();
            *all += cost;
            let all = *all;
            if all > limit {
                self.fail(format!(
                    "{all} of {limit} were let through of {counter:?} in one outage"
                ));
            }
        }
    }

    fn counter(&mut self, ask: &Ask) -> Counter {
        let label: Value = serde_json::from_str(&ask.label).unwrap();
        let policy = label["policyId"].as_str().unwrap();
        let org = ORGS.iter().position(|org| *org == ask.org).unwrap();
        let mode = MODES.iter().position(|mode| policy.starts_with(mode)).unwrap();
        self.names.insert((org, mode), ask.name);
        (org, mode)
    }

    /// A period was begun.
    pub(super) fn opened(&mut self, ask: &Ask, row: &Row, now: Timestamp) {
        let counter = self.counter(ask);
        let end = self.present(counter.0).day_end(now.nanos());
        if row.ends != end {
            let early = (end.abs_diff(row.ends)) / HOUR_NS;
            self.fail(format!(
                "a period of {counter:?} ends {early} hours from where it should"
            ));
        }
    }

    pub(super) fn exchanged(&mut self, ask: &Ask, row: &Row) {
        let counter = self.counter(ask);
        if ask.alert_limit > 0 {
            self.unlooked.remove(&ask.name);
        }
        if row.used > row.mark {
            self.fail(format!("{counter:?} has used more than its mark: {row:?}"));
        }
    }

    /// Something was told for a run that has ended.
    pub(super) fn inherited(&mut self, name: LedgerName) {
        self.unlooked.insert(name);
    }

    /// A threshold was reached.
    pub(super) fn alerted(&mut self, ask: &Ask, row: &Row, threshold: u8) {
        let counter = self.counter(ask);
        let limit = self.present(counter.0).limit;
        if row.used * 100 < u64::from(threshold) * limit {
            self.fail(format!(
                "{} of {limit} of {counter:?} are no {threshold} %",
                row.used
            ));
        }
    }

    /// Nobody has heard what was answered.
    pub(super) fn unheard(&mut self, ask: &Ask, row: &Row) {
        let counter = self.counter(ask);
        self.stranded.insert((counter, row.ends));
    }

    /// A node was killed: what it knew and had not told is lost.
    pub(super) fn killed(&mut self, database: &Database, now: u64) {
        let mut lost: Vec<(Counter, u64)> = self.sums.keys().copied().collect();
        for (counter, name) in &self.names {
            lost.extend(database.rows.get(name).map(|row| (*counter, row.ends)));
        }
        self.unsure.extend(lost.into_iter().filter(|(_, end)| *end > now));
    }

    pub(super) fn runs(&self, counter: Counter, database: &Database, now: u64) -> Option<u64> {
        let row = database.rows.get(self.names.get(&counter)?)?;
        Some(row.ends).filter(|ends| *ends > now)
    }

    /// All nodes had time to tell all that they know, and have heard of these counters and periods. At the end they have
    /// given everything back.
    pub(super) fn settled(
        &mut self,
        database: &Database,
        known: &HashSet<(LedgerName, u64)>,
        now: u64,
        at_the_end: bool,
    ) {
        let mut wanted: HashMap<(Counter, u64), u64> = HashMap::new();
        for (period, sum) in &self.sums {
            wanted.insert(*period, sum.covered + sum.fallback);
        }
        for (counter, name) in &self.names {
            if let Some(row) = database.rows.get(name) {
                wanted.entry((*counter, row.ends)).or_default();
            }
        }
        let mut wanted: Vec<_> = wanted.into_iter().filter(|((_, end), _)| *end > now).collect();
        wanted.sort_unstable();
        for (period, sum) in wanted {
            if self.unsure.contains(&period) {
                continue;
            }
            let (counter, end) = period;
            let row = self.names.get(&counter).and_then(|name| database.rows.get(name));
            let row = row.copied().unwrap_or_default();
            if row.ends != end || row.used != sum {
                let told = if row.ends == end { row.used } else { 0 };
                self.fail(format!(
                    "{sum} were let through of {counter:?}, and the ledger says {told}: {row:?}"
                ));
            }
            if at_the_end && row.mark != row.used && !self.stranded.contains(&period) {
                self.fail(format!("not all of {counter:?} was given back: {row:?}"));
            }
            let limit = self.present(counter.0).limit;
            let reached = |threshold: &&u8| row.used * 100 >= u64::from(**threshold) * limit;
            let highest = ALERTS
                .iter()
                .filter(reached)
                .max()
                .map_or(0, |highest| u64::from(*highest));
            // Thresholds of a quota that nobody counts are looked for when somebody does.
            let looked_at = self
                .names
                .get(&counter)
                .is_some_and(|name| known.contains(&(*name, end)) && !self.unlooked.contains(name));
            if row.alerted < highest && looked_at {
                self.fail(format!(
                    "nobody was told that {} of {limit} of {counter:?} are used",
                    row.used
                ));
            }
        }
    }

    /// What is to be left of a counter in a period, if that is known.
    pub(super) fn left(&self, counter: Counter, end: u64) -> Option<u64> {
        let period = (counter, end);
        let known = !self.unsure.contains(&period) && !self.stranded.contains(&period);
        let sum = self.sums.get(&period).copied().unwrap_or_default();
        let limit = self.present(counter.0).limit;
        known.then(|| limit.saturating_sub(sum.covered + sum.fallback))
    }
}
