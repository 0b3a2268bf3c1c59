//! The places that connections have: so many, and when all are taken, the one that is the least loss makes room.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::door::Dealt;

/// How long a connection that was told to leave has to be gone, before another is looked for.
const LEAVING: Duration = Duration::from_millis(100);

/// A connection's place, given up when it is dropped, however its connection ends. Those that are accepted at the very
/// end have none.
pub(super) type Place = Option<OwnedSemaphorePermit>;

/// All places, and the workers whose connections have them.
pub(super) struct Places {
    free: Arc<Semaphore>,
    workers: Vec<mpsc::Sender<Dealt>>,
    turn: usize,
}

impl Places {
    pub(super) fn new(most: usize, workers: Vec<mpsc::Sender<Dealt>>) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            workers,
            turn: 0,
        }
    }

    /// The worker whose turn it is: connections are dealt out so that all carry the same load.
    pub(super) fn next_worker(&mut self) -> mpsc::Sender<Dealt> {
        self.turn = (self.turn + 1) % self.workers.len();
        self.workers[self.turn].clone()
    }

    /// A place, if one is free.
    pub(super) fn free(&self) -> Option<Place> {
        self.free.clone().try_acquire_owned().ok().map(Some)
    }

    /// A place, once a connection has left that was told to; or nothing, if none could be told.
    pub(super) async fn made_free(&self) -> Option<Place> {
        // The next connection is for the next worker, so that one is asked first.
        for number in 1..=self.workers.len() {
            let worker = &self.workers[(self.turn + number) % self.workers.len()];
            let (reply, answer) = oneshot::channel();
            let asked = worker.send(Dealt::MakeRoom(reply)).await.is_ok();
            if asked && answer.await == Ok(true) {
                return self.freed().await;
            }
        }
        None
    }

    /// A place that becomes free within a moment.
    pub(super) async fn freed(&self) -> Option<Place> {
        let place = timeout(LEAVING, self.free.clone().acquire_owned()).await;
        place.ok()?.ok().map(Some)
    }
}
