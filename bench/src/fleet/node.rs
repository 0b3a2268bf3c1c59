//! A node of a fleet, in this process: the engine of a server on the shared store.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tollgate::clock;
use tollgate::engine::{Engine, Undecided, Wait};
use tollgate::fleet::{Fleet, RedisSettings};
use tollgate_catalog::Request;
use tollgate_counters::Commit;
use tollgate_counters::redis::Address;

use super::server::Server;
use crate::peers::engine;

pub(crate) struct Node {
    engine: Engine,
    fleet: Arc<Fleet>,
    stop: watch::Sender<bool>,
}

impl Node {
    /// Joins the fleet of a server.
    pub(crate) async fn join(server: &Server, policies: &str, directory: &Path) -> Self {
        let settings = RedisSettings {
            address: Address::parse(&server.address()).expect("an address"),
            allow_eviction: false,
        };
        let fleet = Fleet::start(&settings, "bench", directory, usize::MAX).await;
        let fleet = fleet.expect("a fleet");
        fleet.join().await;
        let engine = engine(policies);
        engine.share(fleet.shared.clone());
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(fleet.clone().keep(stopped));
        Self { engine, fleet, stop }
    }

    /// Whether a request goes through; or how to wait for Redis, which has to be asked first.
    pub(crate) fn decide(&self, request: &Request<'_>) -> Result<bool, Wait> {
        let snapshot = self.engine.snapshot();
        match self
            .engine
            .check(&snapshot, request, Commit::Charge, clock::now())
        {
            Ok(checked) => Ok(checked.decision.allowed),
            Err(Undecided::Waits(wait)) => Err(wait),
            // As many wait as may.
            Err(Undecided::Crowded) => Ok(false),
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether a request goes through that had to wait.
    pub(crate) async fn finish(&self, mut wait: Wait, request: &Request<'_>) -> bool {
        let (snapshot, now) = (self.engine.snapshot_full(), clock::now());
        loop {
            let answer = wait.answer(true).await;
            match self
                .engine
                .resume(&snapshot, request, Commit::Charge, now, answer)
            {
                Ok(checked) => return checked.decision.allowed,
                Err(Undecided::Waits(next)) => wait = next,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Whether a request goes through.
    pub(crate) async fn check(&self, request: &Request<'_>) -> bool {
        match self.decide(request) {
            Ok(allowed) => allowed,
            Err(wait) => self.finish(wait, request).await,
        }
    }

    /// Gives back what it holds.
    pub(crate) async fn leave(&self) {
        let _ = self.stop.send(true);
        self.fleet.leave().await;
    }
}
