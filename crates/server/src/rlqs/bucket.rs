//! A bucket of an Envoy: what it holds, what it is likely to want, and when to look at it again.

use std::sync::atomic::Ordering;

use tollgate_counters::LogPace;

use super::action;
use super::charge::{self, Charge, Granting};
use super::left::Left;
use super::lots::Lots;
use super::name::Name;
use super::{REPORT_NS, SECOND_NS, TTL_S, pb, size};
use crate::clock;
use crate::data_plane::DataPlane;

/// How soon a bucket that could be assigned nothing is looked at again.
const SOON_NS: u64 = SECOND_NS;
/// From a bucket that has not reported for so long nothing is known.
const STALE_NS: u64 = REPORT_NS + REPORT_NS / 2;

/// One that is not idle.
pub(super) struct Bucket {
    name: Name,
    lots: Lots<Charge>,
    /// When it last reported; 0 if it never did.
    reported: u64,
    /// What it is expected to want from one report to the next.
    expected: u64,
    /// When it is to be looked at, if no report comes before.
    due: Option<u64>,
    /// Nothing limits it, so that it is charged for what it reports.
    unlimited: bool,
}

/// What buckets of a stream have in common.
pub(super) struct Around<'a> {
    pub(super) plane: &'a DataPlane,
    pub(super) left: &'a Left,
    /// How many Envoys share what may lie unused.
    pub(super) streams: u64,
}

impl Bucket {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            lots: Lots::new(),
            reported: 0,
            expected: 0,
            due: None,
            unlimited: false,
        }
    }

    /// When it is to be looked at.
    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    /// Takes a report, and answers it. Whether the bucket is to be kept.
    pub(super) async fn report(
        &mut self,
        usage: &pb::BucketQuotaUsage,
        around: &Around<'_>,
        actions: &mut Vec<pb::BucketAction>,
    ) -> bool {
        let now = clock::steady();
        let metrics = &around.plane.metrics.quota_streams;
        let used = usage.num_requests_allowed;
        metrics.reported.fetch_add(used, Ordering::Relaxed);
        let told = self.lots.report(used, now);
        for (charge, unused) in told.over {
            charge.give_back(around.plane, &self.name, unused);
        }
        self.beyond(told.beyond, around, now).await;
        charge::note_reported(around.plane, &self.name, used, usage.num_requests_denied);
        let asked = used.saturating_add(usage.num_requests_denied);
        let new = self.reported == 0;
        let elapsed = if new { REPORT_NS } else { now - self.reported };
        (self.reported, self.expected) = (now, size::expected(asked, elapsed));
        self.due = None;
        if asked > 0 {
            self.assign(self.expected, new, around, actions).await;
            return true;
        }
        // Nothing that Envoy could have used and not reported may be left, since it will never report it.
        let idle = self.lots.is_empty();
        if idle {
            actions.push(action::abandon(&self.name));
        }
        !idle
    }

    /// Goes on without a report: what was assigned has expired, or there may be room again.
    pub(super) async fn renew(&mut self, around: &Around<'_>, actions: &mut Vec<pb::BucketAction>) {
        let since = clock::steady() - self.reported;
        self.due = None;
        if since < STALE_NS {
            let rest = u128::from(REPORT_NS.saturating_sub(since));
            let expected = u128::from(self.expected) * rest / u128::from(REPORT_NS);
            let expected = u64::try_from(expected).unwrap_or(u64::MAX).max(1);
            self.assign(expected, false, around, actions).await;
        }
    }

    async fn assign(
        &mut self,
        expected: u64,
        new: bool,
        around: &Around<'_>,
        actions: &mut Vec<pb::BucketAction>,
    ) {
        let unused = self.lots.unused();
        let streams = around.streams.max(1);
        let wanted = |slack: u64| size::wanted(expected, (slack / streams).saturating_sub(unused), new);
        let taken = charge::take(around.plane, &self.name, wanted).await;
        let now = clock::steady();
        self.unlimited = false;
        match taken {
            Ok(Granting::Granted(requests, ttl_s, charge)) => {
                let metrics = &around.plane.metrics.quota_streams;
                metrics.assigned.fetch_add(requests, Ordering::Relaxed);
                self.lots.assign(requests, ttl_s * SECOND_NS, now, charge);
                self.due = self.lots.lasts_until();
                actions.extend(action::spend(&self.name, requests, ttl_s));
            }
            Ok(Granting::Refused(wait)) => {
                self.due = Some(now.saturating_add(wait.max(SOON_NS)));
                if self.lots.lasts_until().is_none_or(|until| until <= now) {
                    actions.push(action::deny(&self.name, TTL_S));
                }
            }
            Ok(Granting::Unlimited) => {
                self.unlimited = true;
                actions.push(action::allow(&self.name, TTL_S));
            }
            // It keeps what it has until that expires.
            Err(_) => self.due = Some(now + SECOND_NS),
        }
    }

    /// Accounts for what was used beyond what this stream was assigned.
    async fn beyond(&self, used: u64, around: &Around<'_>, now: u64) {
        let used = used - around.left.take(&self.name, used, now);
        if used == 0 {
            return;
        }
        if !self.unlimited {
            let metrics = &around.plane.metrics.quota_streams;
            metrics.over_reported.fetch_add(used, Ordering::Relaxed);
        }
        if let Err(undecided) = charge::take_beyond(around.plane, &self.name, used).await {
            static PACE: LogPace = LogPace::new();
            if let Some(left_out) = PACE.turn() {
                tracing::warn!(
                    left_out,
                    "what an Envoy let through can't be charged (next message in 60 s): {undecided}"
                );
            }
        }
    }

    /// Ends with it when its stream breaks. Reports may be lost with that, so all that it held stays charged.
    pub(super) fn end(self, plane: &DataPlane, left: &Left) {
        let until = self.lots.over_at().saturating_add(2 * REPORT_NS);
        let mut held = 0;
        for (charge, unused) in self.lots.abandon() {
            charge.leave(plane);
            held = unused.saturating_add(held);
        }
        left.leave(&self.name, held, until, clock::steady());
    }
}
