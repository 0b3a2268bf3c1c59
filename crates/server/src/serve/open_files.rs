//! A limit of open files that is lower than that of connections.

use rustix::process::{Resource, getrlimit};

use crate::settings::Settings;

/// Files that are open in addition to connections of the data plane: 256 of the admin address, databases, threads.
const OTHERS: u64 = 320;

/// Warns if connections run out of file descriptors before they run out of places.
pub(super) fn compare(settings: &Settings) {
    let addresses = if settings.resp.is_some() { 3 } else { 2 };
    let connections = u64::try_from(settings.max_connections).unwrap_or(u64::MAX);
    // No limit is no value.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit < connections.saturating_add(OTHERS) {
        let enough = connections.saturating_mul(addresses).saturating_add(OTHERS);
        tracing::warn!(
            "only {limit} files may be open (`ulimit -n`), too few for --max-connections {connections}: raise the limit to {enough}, or clients will wait for each other although there is room"
        );
    }
}
