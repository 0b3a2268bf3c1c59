//! A database that has a ledger's rows and nodes, as far as the ledger's statements go.

use std::collections::HashMap;

use tollgate_catalog::repository::{Ask, Done, Granted, LedgerName, Row, Told};
use tollgate_core::Timestamp;

use super::judge::Judge;
use crate::ledger::will::Part;

/// From which parts of a quota on somebody is told.
pub(super) const ALERTS: [u8; 3] = [50, 80, 100];
/// How recently a node must have been heard of to count as alive.
const ALIVE_NS: u64 = 15_000_000_000;

#[derive(Default)]
pub(super) struct Database {
    pub(super) available: bool,
    pub(super) rows: HashMap<LedgerName, Row>,
    /// The last exchange of each node, and when it was last heard of.
    pub(super) nodes: HashMap<u64, (Done, u64)>,
}

impl Database {
    pub(super) fn exchange(
        &mut self,
        node: u64,
        number: i64,
        asks: impl Iterator<Item = Ask>,
        now: Timestamp,
        judge: &mut Judge,
    ) -> Vec<Told> {
        let mut all = Vec::new();
        for ask in asks {
            let known = ask.generation == 0 || self.rows.contains_key(&ask.name);
            if !known {
                all.push(Told::default());
                continue;
            }
            let row = self.rows.entry(ask.name).or_default();
            let before = row.generation;
            let told = row.exchange(&ask, u64::MAX, now, true);
            if row.generation != before {
                judge.opened(&ask, row, now);
            }
            for threshold in row.reach(ask.alert_limit, &ALERTS) {
                judge.alerted(&ask, row, threshold);
            }
            judge.exchanged(&ask, row);
            all.push(told);
        }
        let granted = all.iter().map(|told| Granted {
            generation: told.row.generation,
            amount: told.granted,
        });
        let some = all.iter().any(|told| told.granted > 0);
        let granted = if some { granted.collect() } else { Vec::new() };
        self.nodes.insert(node, (Done { number, granted }, now.nanos()));
        all
    }

    /// Does what is told for a run that has ended.
    pub(super) fn tell(&mut self, heir: u64, number: i64, part: &Part, now: Timestamp, judge: &mut Judge) {
        for unsettled in &part.unsettled {
            if let Some(row) = self.rows.get_mut(&unsettled.name) {
                row.settle(unsettled, now);
                judge.inherited(unsettled.name);
            }
        }
        part.asks.iter().for_each(|ask| judge.inherited(ask.name));
        self.exchange(heir, number, part.present(now).into_iter(), now, judge);
        // It is nobody who lives.
        self.nodes.entry(heir).or_default().1 = 0;
    }

    pub(super) fn last(&self, node: u64) -> Done {
        self.nodes
            .get(&node)
            .map_or_else(Done::default, |known| known.0.clone())
    }

    pub(super) fn note_alive(&mut self, node: u64, now: Timestamp) {
        self.nodes.entry(node).or_default().1 = now.nanos();
    }

    pub(super) fn count(&self, now: Timestamp) -> u64 {
        let alive = |at: &u64| now.nanos().saturating_sub(*at) < ALIVE_NS;
        self.nodes.values().filter(|(_, at)| alive(at)).count() as u64
    }
}
