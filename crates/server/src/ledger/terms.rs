//! What limits a quota's counter: found out again when policies have changed, whether or not somebody asks for it.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_catalog::Request;
use tollgate_catalog::model::Accuracy;
use tollgate_catalog::repository::Replaced;
use tollgate_core::{BillingAnchor, Calendar, CounterKey, Period, Timestamp};

use super::Ledger;
use super::account::Why;
use super::plant::{Bug, is_planted};
use crate::engine::Engine;
use crate::names::Names;
use crate::reservations::Kept;

/// Counters that are looked up again at once, of those that nobody asks for.
const MAX_RENEWED: usize = 5_000;

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

/// What of the terms may change while a counter is counted.
#[derive(Debug, Clone)]
pub(super) struct InForce {
    pub(super) limit: u64,
    pub(super) zone: TimeZone,
    pub(super) anchor: BillingAnchor,
    pub(super) exact: bool,
}

/// A request that a counter counts.
#[derive(Debug)]
pub(super) struct Asker {
    request: Kept,
    is_descriptor: bool,
}

impl Asker {
    pub(super) fn of(request: &Request<'_>) -> Arc<Self> {
        Arc::new(Self {
            request: Kept::of(request),
            is_descriptor: request.is_descriptor,
        })
    }

    /// What limits a counter for this request at an instant, and until when at least; nothing if it is not limited
    /// any more.
    fn terms(&self, engine: &Engine, key: CounterKey, now: Timestamp) -> (Option<InForce>, u64) {
        let request = Request {
            is_descriptor: self.is_descriptor,
            ..self.request.request()
        };
        let snapshot = engine.snapshot();
        let mut stack = snapshot.blank();
        snapshot.resolve(&request, now, &mut stack);
        if stack.unreadable {
            // Nobody knows, and it is tried again.
            return (None, 0);
        }
        let until = snapshot.next_end(request.org, now);
        let own = stack.levels.iter().zip(&stack.limits);
        let own = || own.clone().filter(|(level, _)| level.key == key);
        let limit = own().map(|(level, _)| level.rule.limit).max();
        let terms = own().next().zip(limit).map(|((level, of), limit)| InForce {
            limit,
            zone: level.calendar.zone.clone(),
            anchor: *level.calendar.anchor,
            exact: of.accuracy == Accuracy::Exact,
        });
        (terms, until.map_or(u64::MAX, Timestamp::nanos))
    }
}

impl Terms {
    /// The period at an instant: its start and end.
    pub(super) fn period(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let (zone, anchor) = (&self.zone, &self.anchor);
        Calendar { zone, anchor }.period(self.period, now)
    }
}

impl InForce {
    /// As a stack says that is being decided. Where several limits watch one count the largest is asked for; each is
    /// looked at by itself.
    pub(super) fn of(names: &Names<'_, '_, '_>, place: usize) -> Self {
        let level = &names.levels()[place];
        let same = names.levels().iter().filter(|other| other.key == level.key);
        Self {
            limit: same.map(|other| other.rule.limit).max().unwrap_or(0),
            zone: level.calendar.zone.clone(),
            anchor: *level.calendar.anchor,
            exact: names.limit(place).accuracy == Accuracy::Exact,
        }
    }
}

impl Ledger {
    /// Finds out what limits some counters since policies were changed or an override ended. Nothing is locked while
    /// policies are looked at.
    pub(super) fn renew(&self, engine: &Engine, keys: &[CounterKey], why: Why, now: Timestamp) {
        if is_planted(Bug::TermsStay) {
            return;
        }
        let change = engine.changes();
        let mut stale = Vec::new();
        for key in keys {
            let mut accounts = self.lock();
            let Some(held) = accounts.get(*key) else { continue };
            let account = &mut held.account;
            let Some(asker) = &account.subject.asker else {
                continue;
            };
            if !account.is_stale(change, now) {
                continue;
            }
            // Whoever begins a period has to know when it ends.
            if why != Why::Look || stale.len() < MAX_RENEWED || account.end <= now.nanos() {
                stale.push((*key, asker.clone()));
            } else {
                account.change = 0;
            }
        }
        for (key, asker) in stale {
            let (terms, until) = asker.terms(engine, key, now);
            let mut accounts = self.lock();
            let Some(held) = accounts.get(key) else { continue };
            let account = &mut held.account;
            if let Some(terms) = terms {
                account.renew(terms, now);
            }
            (account.change, account.until) = (change, until);
        }
    }
}
