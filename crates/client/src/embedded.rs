//! Decisions in this process, by the engine that a server has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::clock;
use tollgate::data_plane::DataPlane;
use tollgate::engine::{DEFAULT_MAX_COUNTERS, Engine, random_seed};
use tollgate::grpc::RateLimiter;
use tollgate::metrics::Metrics;
use tollgate::policies::{self, PolicyFileError};

use crate::{Check, CheckError, Decision, Limiter};

/// Why a policy file is not in force; a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotEmbedded(String);

impl std::fmt::Display for NotEmbedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotEmbedded {}

impl From<PolicyFileError> for NotEmbedded {
    fn from(error: PolicyFileError) -> Self {
        Self(error.to_string())
    }
}

/// The engine of a server, in this process: counters in memory, policies from a file. Clones share both.
#[derive(Clone)]
pub struct Embedded {
    path: PathBuf,
    engine: Arc<Engine>,
    limiter: Arc<RateLimiter>,
}

impl Embedded {
    /// Reads a policy file and decides by it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NotEmbedded> {
        let path = path.as_ref();
        let set = policies::load(Some(path))?;
        let seed = random_seed().map_err(|error| NotEmbedded(format!("no randomness: {error}")))?;
        let engine = Engine::new(&set, seed, DEFAULT_MAX_COUNTERS, false)
            .map_err(|problems| PolicyFileError::Invalid(path.to_owned(), problems))?;
        std::thread::spawn(clock::count);
        let engine = Arc::new(engine);
        let plane = DataPlane::new(engine.clone(), Arc::new(Metrics::default()));
        Ok(Self {
            path: path.to_owned(),
            engine,
            limiter: Arc::new(RateLimiter::new(Arc::new(plane))),
        })
    }

    /// Reads the file again. Counts are kept; with a mistake in it nothing changes.
    pub fn reload(&self) -> Result<(), NotEmbedded> {
        let set = policies::load(Some(&self.path))?;
        let snapshot = self
            .engine
            .compile(&set)
            .map_err(|problems| PolicyFileError::Invalid(self.path.clone(), problems))?;
        self.engine.install(snapshot);
        Ok(())
    }
}

impl Limiter for Embedded {
    async fn check(&self, check: Check) -> Result<Decision, CheckError> {
        let has_key = check.api_key.is_some();
        let decided = self.limiter.check_limit(&check).await;
        decided.map_err(|status| CheckError::of(&status, has_key))
    }
}
