//! How Redis is used.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::runtime::Handle;

use super::address::Address;
use super::script::Script;

/// How Redis is used.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// How long a call may take that has not yet run: redirects are followed and scripts loaded within it. A reply
    /// that comes later still counts.
    pub deadline: Duration,
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
            deadline: Duration::from_millis(2),
            connect_timeout: Duration::from_secs(1),
            in_flight: 1024,
            in_lane: 16,
            allow_eviction: false,
            witnesses: 0,
            tls: None,
            scripts: Vec::new(),
            runtime,
        }
    }
}
