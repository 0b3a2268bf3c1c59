//! Warnings about a policy set that is valid: what in it is almost surely a mistake.
//!
//! A normal plan gets none. Whatever is said here changes nothing.

mod mistakes;
mod unlimited;
mod used_up;

use std::fmt;

use tollgate_catalog::model::PolicySet;
use tollgate_catalog::snapshot::{Limit, Snapshot};
use tollgate_core::Timestamp;

use crate::data_plane::RequiredIdentity;

pub use unlimited::{NO_LIMIT_APPLIES, is_enforced, unlimited};
pub use used_up::used_up;

/// Something that was hardly meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The line it stands on, 0 without one.
    pub line: usize,
    sentence: String,
}

impl Warning {
    fn new(line: usize, sentence: String) -> Self {
        Self { line, sentence }
    }

    fn about(line: usize, what: &str, sentence: impl fmt::Display) -> Self {
        Self::new(line, format!("{what}: {sentence}"))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.sentence)
    }
}

/// The warnings about a whole policy set, the gravest first.
pub fn of_set(
    set: &PolicySet,
    snapshot: &Snapshot,
    required: RequiredIdentity,
    now: Timestamp,
) -> Vec<Warning> {
    let unlimited = unlimited(snapshot, required).map(|sentence| Warning::new(0, sentence));
    let tiers = snapshot.tiers().iter().filter_map(|tier| {
        let limits: Vec<&Limit> = snapshot.limits_of(tier).collect();
        let sentence = used_up(&limits)?;
        Some(Warning::about(0, &format!("tier {}", tier.name), sentence))
    });
    let mistakes = mistakes::of_set(set, now);
    unlimited.into_iter().chain(mistakes).chain(tiers).collect()
}

/// The warnings about limits that apply together.
pub fn of_limits(limits: &[&Limit]) -> Vec<Warning> {
    let mistakes = limits.iter().flat_map(|limit| mistakes::of_limit(limit));
    let used_up = used_up(limits).map(|sentence| Warning::new(0, sentence));
    mistakes.chain(used_up).collect()
}

/// The same for one request, which may also meet no limit at all.
pub fn of_request(limits: &[&Limit]) -> Vec<Warning> {
    let unlimited = match limits {
        [] => Some(format!("{NO_LIMIT_APPLIES} to this request")),
        limits if !limits.iter().any(|limit| is_enforced(limit)) => {
            Some("no enforced limit applies to this request: shadow and soft limits only report".to_owned())
        }
        _ => None,
    };
    let unlimited = unlimited.map(|sentence| Warning::new(0, sentence));
    unlimited.into_iter().chain(of_limits(limits)).collect()
}
