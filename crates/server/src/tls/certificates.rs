//! The certificates in force: read at the start, and again whenever their files change.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::sync::watch;

use super::files::{TlsFileError, TlsFiles};
use super::offer::{Address, Offers};
use crate::metrics::Metrics;
use crate::policies::{Stamp, stamp};
use crate::serve::stopped;

/// How often the files are looked at.
const POLL: Duration = Duration::from_millis(250);

/// What the addresses offer, as the files had it when they were last good.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    /// The state in which the files were first read.
    first: Vec<Option<Stamp>>,
    offers: ArcSwap<Offers>,
}

impl Certificates {
    /// Reads the files, which must be good.
    pub fn load(files: TlsFiles) -> Result<Self, TlsFileError> {
        let first = stamps(&files);
        let offers = ArcSwap::from_pointee(Offers::read(&files)?);
        Ok(Self { files, first, offers })
    }

    /// What an address offers now.
    pub fn offer(&self, address: Address) -> Arc<ServerConfig> {
        self.offers.load().at(address)
    }
}

/// Reads the files again whenever one of them has changed, or somebody has them read, until `stop` turns true.
/// Connections that are open stay as they are.
pub async fn watch(
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    mut reread: watch::Receiver<()>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(POLL);
    let mut seen = certificates.first.clone();
    metrics
        .certificates
        .serve(certificates.offers.load().expiries.clone());
    let mut last = seen.clone();
    loop {
        let wanted = tokio::select! {
            _ = ticks.tick() => false,
            Ok(()) = reread.changed() => true,
            () = stopped(&mut stop) => return,
        };
        let now = stamps(&certificates.files);
        // Certificate and key are two files: both must have come to rest before they can be a pair again.
        let settled = now == last;
        last.clone_from(&now);
        if !wanted && (now == seen || !settled) {
            continue;
        }
        seen = now;
        let files = certificates.files.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || Offers::read(&files)).await else {
            continue;
        };
        match read {
            Ok(offers) => {
                metrics.certificates.serve(offers.expiries.clone());
                certificates.offers.store(Arc::new(offers));
                tracing::info!(file = %certificates.files.cert.display(), "certificates reloaded");
            }
            Err(error) => {
                metrics.certificates_not_reloaded();
                tracing::error!("certificates not reloaded, the last good ones stay in force: {error}");
            }
        }
    }
}

fn stamps(files: &TlsFiles) -> Vec<Option<Stamp>> {
    let all = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(|path| stamp(path)).collect()
}
