//! The signals that end the server.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Caught from the moment it is made.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn catch() -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("could not catch signals: {error}");
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(fail)?,
            interrupt: signal(SignalKind::interrupt()).map_err(fail)?,
        })
    }

    pub(super) async fn come(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
