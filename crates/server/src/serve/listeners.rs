//! The addresses that are bound.

use std::net::{SocketAddr, TcpListener};

use crate::settings::Settings;

/// All of them: none is served before the last is bound, so that a port in use leaves nothing half started.
pub(super) struct Listeners {
    pub(super) http: TcpListener,
    pub(super) grpc: TcpListener,
    pub(super) admin: TcpListener,
    pub(super) resp: Option<TcpListener>,
}

impl Listeners {
    /// Binds all.
    pub(super) fn bind(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            http: bind("http", settings.http)?,
            grpc: bind("grpc", settings.grpc)?,
            admin: bind("admin", settings.admin)?,
            resp: settings.resp.map(|address| bind("resp", address)).transpose()?,
        })
    }

    /// Says where it listens.
    pub(super) fn line(&self) -> Result<String, String> {
        let address = |listener: &TcpListener| listener.local_addr().map_err(|error| error.to_string());
        let (http, grpc, admin) = (address(&self.http)?, address(&self.grpc)?, address(&self.admin)?);
        let line = format!("tollgate listening http={http} grpc={grpc} admin={admin}");
        Ok(match &self.resp {
            Some(resp) => format!("{line} resp={}", address(resp)?),
            None => line,
        })
    }
}

fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| format!("--{name}: could not bind {address}: {error}"))
}
