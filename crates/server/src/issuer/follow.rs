//! Keeping the keys current: fetched every few minutes and for a key nobody knows, or read again when their file changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Issuer;
use super::keys::Keys;
use super::source::{Source, Web, read_file};
use crate::clock;
use crate::metrics::{IssuerMetrics, Metrics};
use crate::policies::stamp;
use crate::serve::stopped;

/// How often keys are fetched while all is well.
const EVERY: Duration = Duration::from_mins(5);
/// How soon it is tried again after a failure: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How often tokens of unknown keys may bring a fetch about.
const UNKNOWN_EVERY: Duration = Duration::from_secs(10);
/// How often a file is looked at.
const POLL: Duration = Duration::from_millis(250);

/// Follows the source of the keys until `stop` turns true, and has some metrics tell of it.
pub async fn follow(
    issuer: Arc<Issuer>,
    metrics: Arc<Metrics>,
    of: fn(&Metrics) -> &IssuerMetrics,
    stop: watch::Receiver<bool>,
) {
    let log = Log {
        issuer: &issuer,
        metrics: of(&metrics),
        away: false,
    };
    log.confirm();
    match &issuer.source {
        Source::Web(web) => follow_web(web, &issuer, log, stop).await,
        Source::File(path) => follow_file(path, log, stop).await,
    }
}

async fn follow_web(web: &Web, issuer: &Issuer, mut log: Log<'_>, mut stop: watch::Receiver<bool>) {
    let mut again = AGAIN.0;
    let mut unknown_from = Instant::now();
    loop {
        let fetched = tokio::select! {
            fetched = web.fetch() => fetched,
            () = stopped(&mut stop) => return,
        };
        let wait = if log.take(fetched) { EVERY } else { again };
        again = if log.away {
            (again * 2).min(AGAIN.1)
        } else {
            AGAIN.0
        };
        // Whoever makes up ids of keys must not be able to make this server besiege the issuer.
        let unknown = async {
            issuer.unknown_key.notified().await;
            tokio::time::sleep_until(unknown_from).await;
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = unknown => unknown_from = Instant::now() + UNKNOWN_EVERY,
            () = stopped(&mut stop) => return,
        }
    }
}

async fn follow_file(path: &Path, mut log: Log<'_>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(POLL);
    // What was read at the start may have changed since, so it is read once more.
    let (mut seen, mut last) = (None, stamp(path));
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stop) => return,
        }
        let now = stamp(path);
        // A file in the middle of being written is not read.
        let settled = now == last;
        last = now;
        if settled && Some(now) != seen {
            seen = Some(now);
            let path = path.to_owned();
            if let Ok(read) = tokio::task::spawn_blocking(move || read_file(&path)).await {
                log.take(read);
            }
        } else if !log.away {
            log.confirm();
        }
    }
}

/// What is done and said with keys that come, or don't.
struct Log<'a> {
    issuer: &'a Issuer,
    metrics: &'a IssuerMetrics,
    away: bool,
}

impl Log<'_> {
    /// Puts keys in force. Without any the last ones stay, and that is said once, at its begin and at its end.
    fn take(&mut self, keys: Result<Keys, String>) -> bool {
        let away = keys.is_err();
        match keys {
            Ok(keys) => {
                self.metrics.keys(keys.count());
                self.issuer.install(keys);
                self.confirm();
                if self.away {
                    tracing::info!("the {} issuer's keys are back", self.name());
                }
            }
            Err(problem) if !self.away => {
                tracing::warn!(
                    "no keys of the {} issuer, the last known ones stay in force: {problem}",
                    self.name()
                );
            }
            Err(_) => {}
        }
        self.away = away;
        self.metrics.away(away);
        !away
    }

    fn name(&self) -> String {
        self.issuer.settings.flag.to_uppercase()
    }

    fn confirm(&self) {
        self.metrics.confirmed(clock::now());
    }
}
