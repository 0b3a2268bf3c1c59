//! The data plane in Redis's protocol: `CL.THROTTLE` as redis-cell answers it, and what clients of Redis say beside.
//!
//! [`parse`] finds commands in what has arrived, [`connection`] answers all of them with one write, [`command`] knows what
//! each one is, [`throttle`] asks the engine, [`reply`] writes answers. No policy is looked at here: a throttle's
//! numbers come with it.

mod command;
mod connection;
mod inline;
pub mod parse;
mod reply;
mod throttle;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::data_plane::{DataPlane, DataTokens};
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::tls::Address;
use crate::workers::{Line, Protocol};
use connection::Connection;

/// What the Redis front needs to answer.
struct Front {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    /// What callers must show, if anything.
    tokens: Option<DataTokens>,
}

/// Redis's protocol, spoken with its clients.
#[derive(Clone)]
pub struct Resp(Arc<Front>);

impl Resp {
    /// The front of a data plane.
    pub fn new(plane: &DataPlane) -> Self {
        Self(Arc::new(Front {
            engine: plane.engine.clone(),
            metrics: plane.metrics.clone(),
            tokens: plane.tokens.clone(),
        }))
    }
}

impl Protocol for Resp {
    const ADDRESS: Address = Address::Resp;

    async fn serve(self, line: Line, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        Connection::new(self.0, line).serve(stream).await;
    }
}
