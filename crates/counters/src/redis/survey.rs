//! Finding out how the slots of a Cluster lie, and keeping up with it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::address::Server;
use super::census::{Census, Plan};
use super::client::Inner;
use super::primary::Means;
use super::trouble::{StartError, Trouble};

/// How often the map of the slots is asked for when nothing seems wrong.
const EVERY: Duration = Duration::from_secs(2);
/// How often it is asked for when something does.
const AGAIN: Duration = Duration::from_millis(50);

impl Inner {
    /// Asks everyone who answers for the map, or those named in the address if there is nobody.
    async fn take_census(&self) -> Result<Vec<Census>, StartError> {
        let secure = self.means.settings.address.secure;
        let patience = self.means.settings.connect_timeout;
        let mut asked = JoinSet::new();
        for primary in &self.map.load().primaries {
            let connection = primary.connection().filter(|connection| !connection.is_closed());
            // Nobody waits for one that is silent.
            if let Some(connection) = connection.filter(|_| !primary.is_open()) {
                let server = primary.server.clone();
                asked.spawn(async move {
                    timeout(patience, Census::take(connection.line(), &server, secure)).await
                });
            }
        }
        let told = asked.join_all().await;
        let told: Vec<Census> = told.into_iter().filter_map(|told| told.ok()?.ok()).collect();
        if !told.is_empty() {
            return Ok(told);
        }
        let mut failure = None;
        let known: Vec<Server> = self
            .map
            .load()
            .primaries
            .iter()
            .map(|primary| primary.server.clone())
            .collect();
        for server in self.means.settings.address.servers.iter().chain(&known) {
            let asking = async {
                let line = self.means.dialler.dial(server).await?;
                Census::take(&line, server, secure).await
            };
            match timeout(patience, asking).await.unwrap_or(Err(Trouble::TimedOut)) {
                Ok(census) => return Ok(vec![census]),
                Err(trouble) => failure = failure.or(Some(StartError::of(server, trouble))),
            }
        }
        Err(failure.unwrap_or(StartError::Ended))
    }
}

/// Keeps the map of a Cluster right.
pub(super) async fn survey(inner: Weak<Inner>, means: Arc<Means>) {
    let mut lost = false;
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let begun = Instant::now();
        match inner.take_census().await {
            Ok(told) => {
                inner.adopt(&Plan::of(&told));
                inner.found.send_replace(Some(Ok(())));
                if std::mem::take(&mut lost) {
                    tracing::info!(address = %means.settings.address, "the Redis Cluster is found again");
                }
            }
            Err(error) => {
                if !means.quiet.load(Ordering::Relaxed) && !std::mem::replace(&mut lost, true) {
                    tracing::warn!("{error}; nobody else knows the Redis Cluster either");
                }
                inner.found.send_replace(Some(Err(error)));
                means.astray.notify_one();
            }
        }
        drop(inner);
        // However often someone asks, the servers are not asked more often than this.
        tokio::time::sleep(AGAIN.saturating_sub(begun.elapsed())).await;
        let _ = timeout(EVERY, means.astray.notified()).await;
    }
}
