//! SIGHUP: files are read again at once, changed or not. Most are looked at all the time anyway.

use tokio::sync::watch;

use crate::settings::Settings;

/// Has files read again.
pub(super) struct Reload {
    settings: Settings,
    files: watch::Sender<()>,
}

impl Reload {
    pub(super) fn new(settings: Settings) -> Self {
        let (files, _) = watch::channel(());
        Self { settings, files }
    }

    /// Tells whoever looks after files when to read them.
    pub(super) fn files(&self) -> watch::Receiver<()> {
        self.files.subscribe()
    }

    /// Has them read, and says which settings in the configuration file would need a restart. One that is wrong
    /// changes nothing.
    pub(super) fn begin(&self) {
        tracing::info!("SIGHUP: policies and certificates are read again");
        self.files.send_replace(());
        match self.settings.read_again() {
            Ok(next) => {
                let changed = self.settings.changed(&next);
                if !changed.is_empty() {
                    tracing::warn!("changed settings that need a restart: {}", changed.join(", "));
                }
            }
            Err(problem) => {
                tracing::error!("the configuration file would be refused at a restart: {problem}");
            }
        }
    }
}
