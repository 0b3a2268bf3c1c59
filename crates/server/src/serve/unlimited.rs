//! Warns while there are requests that nothing limits, at the start and whenever other policies come into force.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::stopped;
use crate::data_plane::RequiredIdentity;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::warnings::unlimited;

/// How often the policies in force are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was last warned of.
pub(super) struct Unlimited {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    required: RequiredIdentity,
    /// The policies that were looked at.
    revision: Option<u64>,
    warned: Option<String>,
}

impl Unlimited {
    pub(super) fn new(engine: &Arc<Engine>, metrics: &Arc<Metrics>, required: RequiredIdentity) -> Self {
        Self {
            engine: engine.clone(),
            metrics: metrics.clone(),
            required,
            revision: None,
            warned: None,
        }
    }

    /// Warns if other policies are in force than before, and leave other requests without a limit.
    pub(super) fn look(&mut self) {
        let revision = Some(self.metrics.revision());
        // The kill switch limits nothing on purpose.
        if self.revision == revision || self.engine.shadow_all {
            return;
        }
        self.revision = revision;
        let found = unlimited(&self.engine.snapshot(), self.required);
        if let Some(sentence) = found.as_ref().filter(|_| found != self.warned) {
            tracing::warn!("{sentence}");
        }
        self.warned = found;
    }

    /// Looks again and again, until the server stops.
    pub(super) async fn watch(mut self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.look(),
                () = stopped(&mut stop) => return,
            }
        }
    }
}
