//! Sockets that whoever started this process had bound already, and keeps open when it ends: socket activation, as
//! systemd does it (`LISTEN_FDS`, `LISTEN_PID`).
//!
//! Clients that connect while one process has ended and the next has not begun wait there instead of being refused. A
//! socket is taken for the setting that names its address, so that what may be bound is what the settings may bind.

use std::env;
use std::net::{SocketAddr, TcpListener};

use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first descriptor that is passed on.
const FIRST: i32 = 3;
/// The most that are.
const MOST: i32 = 16;

/// Sockets that nobody has taken yet.
pub(super) struct Inherited(Vec<(SocketAddr, TcpListener)>);

impl Inherited {
    /// Those that this process was passed.
    pub(super) fn take() -> Result<Self, String> {
        let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
        let own = getpid();
        let is_ours = number("LISTEN_PID") == Some(own.as_raw_nonzero().get());
        let Some(count) = number("LISTEN_FDS").filter(|count| is_ours && *count > 0) else {
            return Ok(Self(Vec::new()));
        };
        if count > MOST {
            return Err(format!("LISTEN_FDS: {count} sockets are more than {MOST}"));
        }
        let fail = |error: &dyn std::fmt::Display| format!("LISTEN_FDS: {error}");
        let process = pidfd_open(own, PidfdFlags::empty()).map_err(|error| fail(&error))?;
        let mut sockets = Vec::new();
        for descriptor in FIRST..FIRST + count {
            let fail = |error: &dyn std::fmt::Display| {
                format!("LISTEN_FDS: descriptor {descriptor} is no TCP socket that listens: {error}")
            };
            // A duplicate belongs to nobody else in this process, which can't be known of what it was started with.
            let socket = pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty());
            let socket = socket.map_err(|error| fail(&error))?;
            match socket_acceptconn(&socket) {
                Ok(true) => {}
                Ok(false) => return Err(fail(&"it does not listen")),
                Err(error) => return Err(fail(&error)),
            }
            let socket = TcpListener::from(socket);
            let address = socket.local_addr().map_err(|error| fail(&error))?;
            sockets.push((address, socket));
        }
        Ok(Self(sockets))
    }

    /// The socket of an address, if it is there.
    pub(super) fn of(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let place = self.0.iter().position(|(bound, _)| *bound == address)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Complains of a socket that nobody wants: its clients would wait for ever.
    pub(super) fn all_taken(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((address, _)) => Err(format!(
                "LISTEN_FDS: {address} is the address of none of --http, --grpc, --admin and --resp"
            )),
        }
    }
}
