//! A client of a Tollgate server. Checks that come at the same time go in one call.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use crate::carrier::{Carrier, Waiting};
use crate::{Check, CheckError, Decision, Limiter};

/// How a client asks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a decision may take.
    pub deadline: Duration,
    /// Checks that go in one call at most; a server takes 1,000.
    pub batch: usize,
    /// Calls under way at most.
    pub calls: usize,
    /// Checks that wait to be sent at most. Further ones are [`CheckError::QueueFull`].
    pub queue: usize,
    /// What the server wants shown (`--data-token`).
    pub token: Option<MetadataValue<Ascii>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(250),
            batch: 64,
            calls: 4,
            queue: 4_096,
            token: None,
        }
    }
}

/// Asks a server. Clones share a queue and its calls.
#[derive(Debug, Clone)]
pub struct Client {
    queue: mpsc::Sender<Waiting>,
    deadline: Duration,
}

impl Client {
    /// A client on a channel, which may be a lazy one and may speak TLS. Its calls are made on the runtime that this is
    /// called on.
    pub fn new(channel: Channel, settings: Settings) -> Self {
        let (queue, waiting) = mpsc::channel(settings.queue.max(1));
        let deadline = settings.deadline;
        let carrier = Carrier::new(channel, settings);
        tokio::spawn(carrier.carry(waiting));
        Self { queue, deadline }
    }
}

impl Limiter for Client {
    async fn check(&self, check: Check) -> Result<Decision, CheckError> {
        let (answer, heard) = oneshot::channel();
        let waiting = Waiting { check, answer };
        if let Err(unsent) = self.queue.try_send(waiting) {
            return Err(match unsent {
                mpsc::error::TrySendError::Full(_) => CheckError::QueueFull,
                mpsc::error::TrySendError::Closed(_) => ended(),
            });
        }
        match timeout(self.deadline, heard).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(ended())),
            Err(_) => Err(CheckError::Late),
        }
    }
}

fn ended() -> CheckError {
    CheckError::Unavailable("the client's runtime has ended".to_owned())
}
