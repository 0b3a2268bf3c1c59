//! The data plane over HTTP: checks, batches, and the question gateways ask before they forward.
//!
//! A decision takes a few hundred nanoseconds, so here HTTP itself is the work. This plane therefore speaks
//! HTTP/1.1 on its own buffers (docs/adr/0004-http-on-the-data-plane.md): [`door`] deals connections out to
//! the threads of [`server`], one a core, [`connection`] reads requests and writes answers, [`head`] and [`body`] take them apart,
//! and every route is a plain function from an [`Asked`] to a [`Reply`].

mod authorize;
mod batch;
mod body;
mod check;
mod connection;
mod door;
mod forwarded;
mod head;
mod reply;
mod server;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;

use crate::answer::{HeaderStyles, Problem};
use crate::engine::Engine;
use crate::metrics::Metrics;

pub use server::{Limits, Server};
pub use token::DataTokens;

use head::Head;
use reply::Reply;
use token::Place;

/// What the data plane needs to answer.
pub struct DataPlane {
    /// What decides.
    pub engine: Arc<Engine>,
    /// What counts.
    pub metrics: Arc<Metrics>,
    /// The header styles in use.
    pub styles: HeaderStyles,
    /// From whom forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// What callers must show, if anything.
    pub tokens: Option<DataTokens>,
}

/// A request that has arrived whole.
struct Asked<'a, 'b> {
    peer: IpAddr,
    head: &'a Head<'b>,
    body: &'a [u8],
}

impl DataPlane {
    /// Answers one request.
    fn answer(&self, asked: &Asked<'_, '_>, reply: &mut Reply) {
        let started = Instant::now();
        match asked.head.path {
            "/v1/check" => self.post(asked, reply, check::answer),
            "/v1/check/batch" => self.post(asked, reply, batch::answer),
            "/v1/authorize" => match self.admit(asked.head, Place::Gateway) {
                Ok(()) => authorize::answer(self, asked, reply),
                Err(problem) => reply.problem(&problem),
            },
            _ => reply.problem(&Problem::not_found()),
        }
        self.metrics.observe_request(started.elapsed());
    }

    fn post(
        &self,
        asked: &Asked<'_, '_>,
        reply: &mut Reply,
        answer: impl FnOnce(&Self, &Asked<'_, '_>, &mut Reply),
    ) {
        if let Err(problem) = self.admit(asked.head, Place::Caller) {
            reply.problem(&problem);
            reply.header("www-authenticate", b"Bearer");
            return;
        }
        if asked.head.method == "POST" {
            return answer(self, asked, reply);
        }
        reply.problem(&Problem {
            status: 405,
            error: "method_not_allowed",
            title: "Method not allowed",
            detail: "This address takes POST.".into(),
        });
        reply.header("allow", b"POST");
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

/// The value of a query parameter, as it is written.
fn query_value<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}
