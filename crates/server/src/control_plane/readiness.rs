//! Whether this node should be sent requests, and which of its parts are unavailable.

use serde::Serialize;
use tokio::sync::watch;

use super::ControlPlane;

/// The parts that may be unavailable while decisions go on. Another one is another function here.
const PARTS: [fn(&ControlPlane) -> Option<Part>; 3] = [redis, database, quotas];

/// What readiness depends on apart from the parts.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// Turns true when the server is told to end, before it drains.
    pub draining: watch::Receiver<bool>,
    /// Whether a node some part of which is unavailable is sent requests.
    pub when_degraded: bool,
}

/// A part that is unavailable.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    /// Its name, for programs.
    part: &'static str,
    /// What that means, for people.
    detail: String,
}

/// What a probe is told.
pub(super) struct Standing {
    /// The HTTP status.
    pub(super) status: u16,
    pub(super) name: &'static str,
    pub(super) degraded: Vec<Part>,
}

impl Standing {
    pub(super) fn of(plane: &ControlPlane) -> Self {
        let degraded: Vec<Part> = PARTS.iter().filter_map(|part| part(plane)).collect();
        let Readiness {
            draining,
            when_degraded,
        } = &plane.readiness;
        let (status, name) = match (*draining.borrow(), degraded.is_empty()) {
            (true, _) => (503, "draining"),
            (false, true) => (200, "ready"),
            (false, false) if *when_degraded => (200, "degraded"),
            (false, false) => (503, "degraded"),
        };
        Self {
            status,
            name,
            degraded,
        }
    }
}

fn redis(plane: &ControlPlane) -> Option<Part> {
    let fleet = plane.fleet.as_ref().filter(|fleet| fleet.is_away())?;
    let trouble = fleet
        .trouble()
        .map_or_else(String::new, |trouble| format!(" ({trouble})"));
    Some(Part {
        part: "redis",
        detail: format!(
            "Redis is unavailable{trouble}. Each policy's failMode decides: with `closed`, the default of \
             quotas, requests get 503."
        ),
    })
}

fn database(plane: &ControlPlane) -> Option<Part> {
    plane.metrics.is_catalogue_away().then(|| Part {
        part: "database",
        detail: "The database is unavailable. The last known policies, orgs and keys are in \
            force, and nothing can be changed."
            .to_owned(),
    })
}

fn quotas(plane: &ControlPlane) -> Option<Part> {
    let ledger = plane.engine.ledger.get();
    ledger.is_some_and(|ledger| ledger.is_away()).then(|| Part {
        part: "quotas",
        detail: "The ledger of quotas is unavailable. What this node holds of a quota can be \
            used; after that its failMode decides: with `closed`, the default, requests get \
            503."
            .to_owned(),
    })
}
