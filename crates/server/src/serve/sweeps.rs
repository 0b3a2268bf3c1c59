//! What is done again and again while the server runs: counters, charges and keys that matter no longer are forgotten, a
//! slice at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::stopped;
use crate::clock;
use crate::engine::Engine;
use crate::org_cap::OrgCap;
use crate::reservations::{Keys, Reservations};
use crate::settings::Settings;

/// How often a slice of the counters is swept, and how many places of cells it looks at.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
const SWEEP_PLACES: usize = 4096;

/// How often an org may ask, if that is limited. The kill switch refuses nothing.
pub(super) fn org_cap(
    settings: &Settings,
    engine: &Engine,
    stopped: &watch::Receiver<bool>,
) -> Option<Arc<OrgCap>> {
    let rate = settings.max_org_rate.filter(|_| !settings.shadow_all)?;
    let cap = Arc::new(OrgCap::new(rate as u64, engine.seed()));
    let swept = cap.clone();
    tokio::spawn(sweep(move || swept.sweep(clock::now()), stopped.clone()));
    Some(cap)
}

/// Forgets counters that are as good as untouched.
pub(super) fn sweep_counters(engine: &Arc<Engine>, stopped: &watch::Receiver<bool>) {
    let swept = engine.store.clone();
    let swept = move || swept.sweep(SWEEP_PLACES, clock::now());
    tokio::spawn(sweep(swept, stopped.clone()));
}

/// Ends reservations whose time has come, and forgets old keys.
pub(super) fn sweep_charges(
    reservations: Arc<Reservations>,
    keys: Arc<Keys>,
    stopped: &watch::Receiver<bool>,
) {
    let swept = move || {
        let now = clock::now();
        reservations.sweep(now);
        keys.sweep(now);
    };
    tokio::spawn(sweep(swept, stopped.clone()));
}

/// Does a slice of something at each tick.
pub(super) async fn sweep(slice: impl Fn() + Send, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => slice(),
            () = stopped(&mut stop) => return,
        }
    }
}
