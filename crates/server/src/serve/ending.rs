//! The end of a server: first it is not ready any more, then it drains.

use std::time::Duration;

use tokio::sync::watch;

use super::reload::Reload;
use super::signals::{Signals, Told};

/// Serves until a signal ends it, and reads files again at each that asks for it.
///
/// Whoever sends requests here learns of the end from readiness and needs time to send them elsewhere: so for the
/// delay all is served as before, only not ready. Another signal to end cuts the delay short.
pub(super) async fn until_end(
    signals: &mut Signals,
    reload: &Reload,
    draining: &watch::Sender<bool>,
    delay: Duration,
) {
    while signals.next().await == Told::Reload {
        reload.begin();
    }
    if delay.is_zero() {
        return;
    }
    tracing::info!("not ready any more; draining in {delay:?}, or at the next SIGTERM");
    let _ = draining.send(true);
    let mut over = std::pin::pin!(tokio::time::sleep(delay));
    loop {
        tokio::select! {
            () = &mut over => return,
            told = signals.next() => match told {
                Told::Reload => reload.begin(),
                Told::End => return,
            },
        }
    }
}
