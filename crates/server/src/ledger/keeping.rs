//! The thread on which a ledger is kept, from the start of a server to its end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::Ledger;
use super::estate::Estates;
use super::keeper::Keeper;
use crate::engine::Engine;
use crate::serve::stopped;

/// How often a slice of all accounts is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long giving everything back may take at the end.
const LAST_CALLS: Duration = Duration::from_secs(4);

/// A ledger that is being kept.
pub struct Keeping {
    end: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Keeping {
    /// Keeps a ledger on a thread of its own: requests may wait for it, and must not wait for the control plane.
    ///
    /// It first settles what runs before this one have left.
    pub fn start(ledger: Arc<Ledger>, engine: Arc<Engine>, estates: Estates) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (end, ended) = watch::channel(false);
        let thread = std::thread::Builder::new().name("ledger".to_owned());
        let thread = thread.spawn(move || runtime.block_on(ledger.keep(engine, estates, ended)))?;
        Ok(Self { end, thread })
    }

    /// Gives back what is held. Nothing may be decided any more.
    pub async fn end(self) {
        let _ = self.end.send(true);
        let _ = tokio::task::spawn_blocking(|| self.thread.join()).await;
    }
}

impl Ledger {
    /// Keeps this node's part of the ledger until told to stop, when nothing is decided any more; then gives back what it
    /// holds.
    async fn keep(self: Arc<Self>, engine: Arc<Engine>, estates: Estates, mut stop: watch::Receiver<bool>) {
        let mut keeper = Keeper::new(self.clone(), engine, estates);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut counted, mut tidied) = (None, None);
        // Before anybody is told that nothing is left.
        keeper.settle().await;
        loop {
            tokio::select! {
                () = self.wake.notified() => keeper.serve().await,
                _ = looks.tick() => {
                    keeper.serve().await;
                    keeper.look().await;
                    keeper.count(&mut counted);
                    keeper.tidy(&mut tidied).await;
                }
                () = stopped(&mut stop) => break,
            }
        }
        // What could not be told is told by the next run.
        if timeout(LAST_CALLS, keeper.give_all()).await == Ok(true) || keeper.leave() {
            if let Some(journal) = self.store.journal()
                && let Err(error) = journal.remove()
            {
                tracing::warn!("the journal of quotas can't be removed: {error}");
            }
        } else {
            tracing::warn!("the quota ledger does not answer: what this node held stays debited");
        }
        self.repository.close().await;
    }
}
