//! A node of a fleet, in this process: the engine of a server on the shared store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tollgate::clock;
use tollgate::engine::{Engine, Patience, Undecided, Wait};
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
    undecided: AtomicU64,
}

impl Node {
    /// Joins the fleet of a server.
    pub(crate) async fn join(server: &Server, policies: &str, directory: &Path) -> Self {
        let settings = RedisSettings {
            address: Address::parse(&server.address()).expect("an address"),
            allow_eviction: false,
            witnesses: 0,
            patience: tollgate_counters::shared::PATIENCE,
            nodes: None,
        };
        let fleet = Fleet::start(&settings, "bench", directory, usize::MAX).await;
        let fleet = fleet.expect("a fleet");
        fleet.join().await;
        let engine = engine(policies);
        engine.share(fleet.shared.clone());
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(fleet.clone().keep(stopped));
        Self {
            engine,
            fleet,
            stop,
            undecided: AtomicU64::new(0),
        }
    }

    /// How many requests were not decided since Redis did not answer in time; the count begins anew.
    pub(crate) fn undecided(&self) -> u64 {
        self.undecided.swap(0, Ordering::Relaxed)
    }

    /// Nothing goes through while Redis is away.
    fn is_away(&self) -> bool {
        self.undecided.fetch_add(1, Ordering::Relaxed);
        false
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
            Err(Undecided::StoreAway) => Ok(self.is_away()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether a request goes through that had to wait.
    pub(crate) async fn finish(&self, mut wait: Wait, request: &Request<'_>) -> bool {
        let (snapshot, now) = (self.engine.snapshot_full(), clock::now());
        let mut patience = Patience::default();
        loop {
            let answer = wait.answer(&mut patience).await;
            match self
                .engine
                .resume(&snapshot, request, Commit::Charge, now, answer)
            {
                Ok(checked) => return checked.decision.allowed,
                Err(Undecided::Waits(next)) => wait = next,
                Err(Undecided::StoreAway) => return self.is_away(),
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
