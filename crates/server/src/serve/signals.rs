//! The signals that a running server obeys.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// SIGHUP: read files again.
    Reload,
    /// SIGTERM or SIGINT: drain and end.
    End,
}

/// SIGHUP, caught from the moment this is made: left to itself it would end the process.
pub(super) struct Hangup(Signal);

/// All of them, caught from the moment this is made.
pub(super) struct Signals {
    hangup: Hangup,
    terminate: Signal,
    interrupt: Signal,
}

impl Hangup {
    pub(super) fn catch() -> Result<Self, String> {
        caught(SignalKind::hangup()).map(Self)
    }
}

impl Signals {
    /// Catches those that end the server, too. Before this they end a start that takes long, as anybody expects.
    pub(super) fn catch(hangup: Hangup) -> Result<Self, String> {
        Ok(Self {
            hangup,
            terminate: caught(SignalKind::terminate())?,
            interrupt: caught(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.hangup.0.recv() => Told::Reload,
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
        }
    }
}

fn caught(kind: SignalKind) -> Result<Signal, String> {
    signal(kind).map_err(|error| format!("could not catch signals: {error}"))
}
