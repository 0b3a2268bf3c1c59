//! A request that waits for the ledger.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a request waits for the ledger.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// What somebody who waits hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The ledger has been asked: decide again.
    Again,
    /// It can't be reached.
    Away,
}

/// A request that waits.
#[derive(Debug)]
pub struct Wait(pub(super) oneshot::Receiver<Answer>);

impl Wait {
    /// Waits. Whoever will not decide again does not.
    pub async fn answer(self, again: bool) -> Answer {
        if !again {
            return Answer::Away;
        }
        match timeout(PATIENCE, self.0).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Answer::Away,
        }
    }
}
