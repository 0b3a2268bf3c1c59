//! How Redis is used.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::runtime::Handle;

use super::address::Address;
use super::script::Script;
use crate::shared::PATIENCE;

/// The time that a connection has to become usable, for a server that is near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The round trips that a new connection may need: TCP, TLS, user, database, who is there, scripts; and some to spare.
const CONNECT_TRIPS: u32 = 16;
/// The time that a connection has at most: whoever starts waits for it.
const LONGEST_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How Redis is used.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// How long a request waits for a reply: redirects are followed and scripts loaded within it, and a server that is
    /// silent for longer is sent no more calls. A reply that comes later still counts.
    pub deadline: Duration,
    /// How long a request waits in all: a call waits no less for its turn in a lane, and for replicas.
    pub patience: Duration,
    /// How long a connection may take until it can be used.
    pub connect_timeout: Duration,
    /// How many calls may be under way on a connection.
    pub in_flight: usize,
    /// How many of them in one lane. More than a server has to do at a time would only make the others wait.
    pub in_lane: usize,
    /// Use servers that may forget counters when their memory is full.
    pub allow_eviction: bool,
    /// How many replicas must have what a call wrote before its reply counts. A primary that is cut off from them then
    /// grants nothing more.
    pub witnesses: u32,
    /// How TLS is spoken; `None` trusts the system's authorities. Only for addresses over TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// Scripts that each server is told when it is connected to, so that no call waits for it.
    pub scripts: Vec<&'static Script>,
    /// Where connections are driven and replies are handled.
    pub runtime: Handle,
}

impl Settings {
    /// The defaults for an address.
    pub fn new(address: Address, runtime: Handle) -> Self {
        Self {
            address,
            deadline: PATIENCE,
            patience: PATIENCE,
            connect_timeout: CONNECT_TIMEOUT,
            in_flight: 1024,
            in_lane: 16,
            allow_eviction: false,
            witnesses: 0,
            tls: None,
            scripts: Vec::new(),
            runtime,
        }
    }

    /// The same for requests that wait so long for a reply. A connection takes several trips, and gets as many times that.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self {
            deadline,
            patience: deadline,
            connect_timeout: (deadline * CONNECT_TRIPS).clamp(CONNECT_TIMEOUT, LONGEST_CONNECT_TIMEOUT),
            ..self
        }
    }
}
