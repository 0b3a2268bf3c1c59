//! Taking what is to be assigned from the limits, and giving back what was not used.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::{Commit, Held};

use super::name::Name;
use super::terms::Terms;
use crate::clock;
use crate::data_plane::DataPlane;
use crate::engine::{Checked, Undecided};
use crate::ledger::Used;

/// How often it is tried again if others change what was seen.
const TRIES: usize = 4;

/// What was charged for a lot.
#[derive(Debug)]
pub(super) struct Charge {
    holds: Box<[Held]>,
    /// How many levels the stack has. Behind them are counters that only stood in for others.
    levels: usize,
    /// What a request costs.
    each: u64,
    at: Timestamp,
    class: (Option<u32>, Option<Box<str>>),
}

/// What came of an attempt to take something.
#[derive(Debug)]
pub(super) enum Granting {
    /// So many requests, for so many seconds.
    Granted(u64, u64, Charge),
    /// None; it is worth another try after so many nanoseconds.
    Refused(u64),
    /// Nothing limits them.
    Unlimited,
}

/// Takes as many requests of a bucket as `wanted` says, given how many may lie unused, or as many as there are.
pub(super) async fn take(
    plane: &DataPlane,
    name: &Name,
    wanted: impl Fn(u64) -> u64 + Send + Sync,
) -> Result<Granting, Undecided> {
    let snapshot = plane.engine.snapshot_full();
    let Ok(mut request) = name.request() else {
        return Ok(Granting::Refused(u64::MAX));
    };
    let each = request.cost;
    for _ in 0..TRIES {
        let (started, now) = (Instant::now(), clock::now());
        plane.ask_leave(request.org, now)?;
        request.cost = 0;
        let look = plane
            .engine
            .check_in_time(&snapshot, &request, Commit::DryRun, now);
        let Some(terms) = Terms::of(&look.await?, each) else {
            return Ok(Granting::Unlimited);
        };
        let mut requests = wanted(terms.slack).min(terms.room);
        while requests > 0 {
            request.cost = requests.saturating_mul(each);
            let lease = plane
                .engine
                .lease_in_time(&snapshot, &request, &terms.extras, now);
            let leased = lease.await?;
            if !leased.decision.allowed {
                requests /= 2;
                continue;
            }
            let charge = Charge::of(&leased, each, &snapshot);
            if !plane.engine.is_shared() && !terms.hold(&leased, request.cost) {
                charge.release(plane, u64::MAX);
                break;
            }
            plane.metrics.observe_decision(&leased, started.elapsed());
            plane.tally_use(
                &leased,
                &request,
                &snapshot,
                Used::charged(tokens(requests, each)),
            );
            return Ok(Granting::Granted(requests, terms.ttl_s, charge));
        }
        if requests == 0 {
            return Ok(Granting::Refused(terms.wait_ns));
        }
    }
    Ok(Granting::Refused(0))
}

/// Charges what an Envoy let through without having been assigned it, as far as there is room: all at once, or else each
/// power of two that still fits, the largest first, which add up to any room that there may be.
pub(super) async fn take_beyond(plane: &DataPlane, name: &Name, requests: u64) -> Result<(), Undecided> {
    let (snapshot, now) = (plane.engine.snapshot_full(), clock::now());
    let Ok(mut request) = name.request() else {
        return Ok(());
    };
    let each = request.cost;
    let most = requests.checked_ilog2().unwrap_or(0);
    let powers = (0..=most).rev().map(|bit| 1 << bit);
    let mut rest = requests;
    let (mut seen, mut outcome) = (None, Ok(()));
    for piece in std::iter::once(requests).chain(powers) {
        let piece = rest.min(piece);
        if piece == 0 {
            break;
        }
        request.cost = piece.saturating_mul(each);
        let started = Instant::now();
        let charged = match plane.ask_leave(request.org, now) {
            Ok(()) => {
                let engine = &plane.engine;
                engine
                    .check_in_time(&snapshot, &request, Commit::Charge, now)
                    .await
            }
            Err(undecided) => Err(undecided),
        };
        match charged {
            Ok(charged) => {
                plane.metrics.observe_decision(&charged, started.elapsed());
                if charged.decision.allowed {
                    rest -= piece;
                }
                seen = Some(charged);
            }
            Err(undecided) => {
                outcome = Err(undecided);
                break;
            }
        }
    }
    if let Some(seen) = seen {
        let used = Used::charged(tokens(requests - rest, each));
        plane.tally_use(&seen, &request, &snapshot, used);
    }
    outcome
}

/// Notes for statements what an Envoy reports to have let through and refused.
pub(super) fn note_reported(plane: &DataPlane, name: &Name, allowed: u64, denied: u64) {
    if let (Some(ledger), Ok(request)) = (plane.engine.ledger.get(), name.request())
        && (allowed, denied) != (0, 0)
    {
        let (snapshot, now) = (plane.engine.snapshot_full(), clock::now());
        let mut stack = snapshot.blank();
        snapshot.resolve(&request, now, &mut stack);
        let class = stack
            .class
            .and_then(|class| snapshot.classes().get(class as usize));
        let class = (stack.class, class.map(|class| &**class));
        ledger
            .tallies
            .add(&request, class, now, Used::reported(allowed, denied));
    }
}

/// What so many requests cost.
fn tokens(requests: u64, each: u64) -> i64 {
    i64::try_from(requests.saturating_mul(each)).unwrap_or(i64::MAX)
}

impl Charge {
    fn of(leased: &Checked<'_>, each: u64, snapshot: &Snapshot) -> Self {
        let class = leased.stack.class;
        let name = class.and_then(|class| snapshot.classes().get(class as usize));
        Self {
            holds: leased.held.iter().flat_map(|held| held.iter().copied()).collect(),
            levels: leased.stack.levels.len(),
            each,
            at: leased.now,
            class: (class, name.map(|name| (**name).into())),
        }
    }

    /// Gives back what it has of so many requests, where that still counts. What else it has stays charged.
    pub(super) fn give_back(self, plane: &DataPlane, name: &Name, unused: u64) {
        self.release(plane, unused);
        if unused == 0 {
            return;
        }
        // Whether or not the limits have it back, nobody used it.
        if let (Some(ledger), Ok(request)) = (plane.engine.ledger.get(), name.request()) {
            let class = (self.class.0, self.class.1.as_deref());
            let less = Used::charged(-tokens(unused, self.each));
            ledger.tallies.add(&request, class, self.at, less);
        }
        if !self.holds.is_empty() {
            let metrics = &plane.metrics.quota_streams;
            metrics.given_back.fetch_add(unused, Ordering::Relaxed);
        }
    }

    /// Leaves all of it charged, for good.
    pub(super) fn leave(self, plane: &DataPlane) {
        self.release(plane, 0);
    }

    fn release(&self, plane: &DataPlane, requests: u64) {
        let tokens = requests.saturating_mul(self.each);
        let back = |held: &Held| (*held, if held.place < self.levels { tokens } else { 0 });
        let backs: Vec<(Held, u64)> = self.holds.iter().map(back).collect();
        plane.engine.store.release(&backs, clock::now());
    }
}
