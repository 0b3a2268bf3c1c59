//! The addresses that are bound.

use std::net::{SocketAddr, TcpListener};

use super::inherited::Inherited;
use crate::settings::Settings;
use crate::workers::Listener;

/// All of them: none is served before the last is bound, so that a port in use leaves nothing half started.
pub(super) struct Listeners {
    pub(super) http: Listener,
    pub(super) grpc: Listener,
    pub(super) admin: Listener,
    pub(super) resp: Option<Listener>,
}

impl Listeners {
    /// Binds all that are not bound already.
    pub(super) fn bind(settings: &Settings) -> Result<Self, String> {
        let mut inherited = Inherited::take()?;
        let mut bind = |name, address| bind(name, address, &mut inherited);
        let listeners = Self {
            http: bind("http", settings.http)?,
            grpc: bind("grpc", settings.grpc)?,
            admin: bind("admin", settings.admin)?,
            resp: settings.resp.map(|address| bind("resp", address)).transpose()?,
        };
        inherited.all_taken()?;
        Ok(listeners)
    }

    /// Says where it listens.
    pub(super) fn line(&self) -> Result<String, String> {
        let address = |listener: &Listener| listener.socket.local_addr().map_err(|error| error.to_string());
        let (http, grpc, admin) = (address(&self.http)?, address(&self.grpc)?, address(&self.admin)?);
        let line = format!("tollgate listening http={http} grpc={grpc} admin={admin}");
        Ok(match &self.resp {
            Some(resp) => format!("{line} resp={}", address(resp)?),
            None => line,
        })
    }
}

fn bind(name: &str, address: SocketAddr, inherited: &mut Inherited) -> Result<Listener, String> {
    if let Some(socket) = inherited.of(address) {
        return Ok(Listener {
            socket,
            outlasts: true,
        });
    }
    let socket = TcpListener::bind(address);
    Ok(Listener {
        socket: socket.map_err(|error| format!("--{name}: could not bind {address}: {error}"))?,
        outlasts: false,
    })
}

/// The same for an asynchronous server.
pub(super) fn listener(listener: Listener) -> std::io::Result<tokio::net::TcpListener> {
    listener.socket.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener.socket)
}
