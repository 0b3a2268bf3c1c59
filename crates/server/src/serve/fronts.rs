//! What the threads of the data plane speak.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::data_plane::{DataPlane, Http};
use crate::grpc::Grpc;
use crate::resp::Resp;
use crate::settings::Settings;
use crate::tls::Handshakes;
use crate::workers::{Limits, Listener, Protocol, Server};

/// Serves all that is spoken.
pub(super) fn serve_workers(
    settings: &Settings,
    (http, grpc, resp): (Listener, Listener, Option<Listener>),
    (plane, speaks_grpc): (&Arc<DataPlane>, &Grpc),
    handshakes: Option<&Handshakes>,
    stopped: &watch::Receiver<bool>,
) -> std::io::Result<Vec<Server>> {
    let limits = Limits {
        connections: settings.max_connections,
        ..Limits::default()
    };
    let start = Starting {
        threads: settings.threads,
        handshakes,
        stopped,
    };
    let mut servers = vec![start.server(http, limits, &Http(plane.clone()))?];
    let turning_away = Limits {
        turns_away: true,
        ..limits
    };
    servers.push(start.server(grpc, turning_away, speaks_grpc)?);
    if let Some(resp) = resp {
        let patient = Limits {
            // Pools of clients keep connections for later.
            idle_timeout: Duration::from_mins(10),
            ..limits
        };
        servers.push(start.server(resp, patient, &Resp::new(plane))?);
    }
    Ok(servers)
}

/// What the servers of the data plane have in common.
struct Starting<'a> {
    threads: usize,
    handshakes: Option<&'a Handshakes>,
    stopped: &'a watch::Receiver<bool>,
}

impl Starting<'_> {
    fn server(&self, listener: Listener, limits: Limits, speaks: &impl Protocol) -> std::io::Result<Server> {
        let handshakes = self.handshakes.cloned();
        Server::start(listener, self.threads, limits, speaks, handshakes, self.stopped)
    }
}
