//! Decisions that are asked for in one go and counted together: what each would cost by itself to count adds up in a
//! batch.

use std::time::Instant;

use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::DataPlane;
use crate::engine::{Checked, Undecided};
use crate::ledger::Used;
use crate::metrics::Counting;

/// Decisions by one snapshot at one instant. They are counted when it is dropped.
pub(crate) struct Series<'a, 'r> {
    plane: &'a DataPlane,
    snapshot: &'a Snapshot,
    now: Timestamp,
    started: Instant,
    counting: Counting<'a>,
    charging: u64,
    /// What was decided last.
    checked: Checked<'a>,
    /// The last one is among those whose use is noted.
    in_row: bool,
    /// What the last ones used, as long as they are of one kind.
    run: Option<Run<'a, 'r>>,
}

/// Decisions of one org, app and class in a row.
struct Run<'a, 'r> {
    request: &'a Request<'r>,
    class: Option<u32>,
    at: Timestamp,
    used: Used,
}

impl<'a, 'r> Series<'a, 'r> {
    pub(crate) fn of(plane: &'a DataPlane, snapshot: &'a Snapshot, now: Timestamp) -> Self {
        Self {
            plane,
            snapshot,
            now,
            started: Instant::now(),
            counting: plane.metrics.counting(),
            charging: 0,
            checked: Checked::blank(snapshot, now),
            in_row: false,
            run: None,
        }
    }

    /// Decides a request at once and tells what was decided, or says what it waits for.
    #[inline]
    pub(crate) fn decide(
        &mut self,
        request: &'a Request<'r>,
        commit: Commit,
        tell: impl FnOnce(&Checked<'a>),
    ) -> Result<(), Undecided> {
        let (plane, snapshot) = (self.plane, self.snapshot);
        let in_row = std::mem::take(&mut self.in_row);
        plane.ask_leave(request.org, self.now)?;
        plane
            .engine
            .check_next(snapshot, request, commit, self.now, &mut self.checked)?;
        if commit == Commit::Charge {
            self.counting.count(&self.checked);
            self.charging += 1;
            self.tally(request, in_row);
            self.in_row = true;
        }
        tell(&self.checked);
        Ok(())
    }

    fn tally(&mut self, request: &'a Request<'r>, in_row: bool) {
        if self.plane.engine.ledger.get().is_none() {
            return;
        }
        let checked = &self.checked;
        let used = Used::of(checked, request);
        let (class, now) = (checked.stack.class, checked.now);
        let again = in_row && checked.stack.again;
        let kind = |request: &'a Request<'r>| (request.org, request.app, request.test);
        let is_same = |run: &Run<'a, 'r>| again || kind(run.request) == kind(request);
        match &mut self.run {
            Some(run) if run.class == class && run.at == now && is_same(run) => {
                run.used.add(used);
            }
            _ => {
                self.note();
                self.run = Some(Run {
                    request,
                    class,
                    at: now,
                    used,
                });
            }
        }
    }

    fn note(&mut self) {
        if let (Some(run), Some(ledger)) = (self.run.take(), self.plane.engine.ledger.get()) {
            let class = run
                .class
                .and_then(|class| self.snapshot.classes().get(class as usize));
            let class = (run.class, class.map(|class| &**class));
            ledger.tallies.add(run.request, class, run.at, run.used);
        }
    }
}

impl Drop for Series<'_, '_> {
    fn drop(&mut self) {
        self.note();
        let metrics = &self.plane.metrics;
        metrics.observe_decision_times(self.charging, self.started.elapsed());
    }
}
