//! Limits on the control plane itself, by the same engine that it administers: on tokens that nobody knows, and on what
//! those who are known ask for.
//!
//! They are a policy set of their own, with counters of their own, and know nothing of the catalogue.

mod choice;
mod limited;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tollgate_catalog::Request;
use tollgate_catalog::parse_policy_set;
use tollgate_catalog::route::Endpoint;
use tollgate_counters::Commit;

use super::role::Caller;
use crate::answer::HeaderStyles;
use crate::clock;
use crate::engine::{Engine, random_seed};
use crate::policies::{PolicyFileError, read_file};

pub use choice::AdminLimits;
pub(super) use limited::Limited;

/// The limits used when no file is given.
const BUILT_IN: &str = include_str!("limits.yaml");
/// Counters held at most, some three megabytes of them. Who finds no room is let through: a wrong token is no better for
/// it.
const MAX_COUNTERS: usize = 65_536;
/// How many places of counters a sweep looks at.
const SWEEP_PLACES: usize = 512;

/// What limits the control plane.
pub struct Limits {
    engine: Engine,
    styles: HeaderStyles,
}

/// What is known of a request before anything else is.
pub(super) struct Arrival<'a> {
    /// Who sent it, unless the connection does not say.
    pub(super) peer: Option<IpAddr>,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
}

impl Limits {
    /// The limits of a file, or the built-in ones. The error is a sentence that names the flag.
    pub fn read(file: Option<&Path>, styles: HeaderStyles, shadow_all: bool) -> Result<Self, String> {
        let path = file.map_or_else(|| PathBuf::from("limits.yaml"), Path::to_owned);
        let invalid = |problems| PolicyFileError::Invalid(path.clone(), problems);
        let set = match file {
            Some(file) => read_file(file),
            None => parse_policy_set(BUILT_IN).map_err(invalid),
        };
        let seed = random_seed().map_err(|error| format!("no randomness for the key seed: {error}"))?;
        let engine = set.and_then(|set| Engine::new(&set, seed, MAX_COUNTERS, shadow_all).map_err(invalid));
        let engine = engine.map_err(|error| format!("--admin-limits: {error}"))?;
        Ok(Self { engine, styles })
    }

    /// Counts a request whose token is not known.
    pub(super) fn failed_login(&self, arrival: &Arrival<'_>) -> Result<(), Limited> {
        let mut request = arrival.request();
        request.descriptors.push(("caller", "unknown"));
        self.take(&request)
    }

    /// Counts a request of a known caller.
    pub(super) fn request(&self, caller: &Caller, arrival: &Arrival<'_>) -> Result<(), Limited> {
        let tenant = caller.role.within_org();
        let mut request = arrival.request();
        request.user = Some(&caller.actor);
        request.org = caller.org.as_deref().filter(|_| tenant);
        let side = if tenant { "tenant" } else { "platform" };
        request.descriptors.push(("caller", side));
        request.descriptors.push(("role", caller.role.name()));
        self.take(&request)
    }

    /// Forgets some idle counters.
    pub fn sweep(&self) {
        self.engine.store.sweep(SWEEP_PLACES, clock::now());
    }

    fn take(&self, request: &Request<'_>) -> Result<(), Limited> {
        let snapshot = self.engine.snapshot();
        match self
            .engine
            .check(&snapshot, request, Commit::Charge, clock::now())
        {
            Ok(checked) if !checked.decision.allowed => Err(Limited::of(&checked, self.styles)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl<'a> Arrival<'a> {
    fn request(&self) -> Request<'a> {
        Request {
            ip: self.peer.map(|peer| peer.to_canonical()),
            // A path that is no endpoint is one that has no limits of its own.
            endpoint: Endpoint::of(Some(self.method), self.path).ok(),
            ..Request::new()
        }
    }
}
