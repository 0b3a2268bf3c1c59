//! Which policies apply to a request, which don't and why, and which one binds.

use std::fmt::Write;

use serde::Serialize;
use tollgate_catalog::Request;
use tollgate_catalog::snapshot::{Limit, Snapshot, Verdict};
use tollgate_core::{Algorithm, Mode, Timestamp};
use tollgate_counters::Commit;

use crate::answer::{grouped, mode_name, rfc3339};
use crate::engine::{Checked, Engine, Undecided};
use crate::warnings;

/// The whole explanation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The org's tier.
    pub tier: String,
    /// Which policy set decides, while a rollout is open.
    pub rollout: Option<Side>,
    /// The endpoint as it is counted.
    pub endpoint: Option<String>,
    /// Its class.
    pub class: Option<String>,
    /// Whether the request would be allowed now.
    pub allowed: bool,
    /// The policy that refuses, or the one with the least left.
    pub binds: Option<String>,
    /// What applies, from broad to narrow.
    pub applied: Vec<Applied>,
    /// What does not.
    pub skipped: Vec<Skipped>,
    /// What is hardly meant: no limit applies, one caller uses up a quota within an hour.
    pub warnings: Vec<String>,
}

/// The policy set that decides for an org while a rollout is open.
#[derive(Debug, Serialize)]
pub struct Side {
    /// The rollout.
    pub id: String,
    /// How many of a hundred orgs its candidate decides.
    pub percent: u8,
    /// `candidate` or `active`.
    pub set: &'static str,
}

impl Side {
    /// The side that an org is on.
    pub fn of(snapshot: &Snapshot, org: Option<&str>) -> Option<Self> {
        let share = snapshot.share()?;
        Some(Self {
            id: share.rollout.clone(),
            percent: share.percent,
            set: if snapshot.is_candidate(org) {
                "candidate"
            } else {
                "active"
            },
        })
    }
}

/// A policy that applies.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The policy.
    pub policy_id: String,
    /// What is counted together.
    pub scope: String,
    /// What it does.
    pub mode: &'static str,
    /// How it counts.
    pub algorithm: &'static str,
    /// What a window admits.
    pub limit: u64,
    /// A bucket's capacity.
    pub burst: Option<u64>,
    /// The window.
    pub window: String,
    /// What is left.
    pub remaining: u64,
    /// Whether it has no room for the request.
    pub violated: bool,
    /// Where its values came from.
    pub from: String,
    /// The limit that an override hides.
    pub hides: Option<u64>,
    /// `file` if it stands in the policy file, or its override does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

/// A policy that does not apply.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The policy.
    pub policy_id: String,
    /// Why it does not apply.
    pub reason: String,
}

/// Explains a request by counters in memory. Charges nothing.
pub fn explain(
    engine: &Engine,
    snapshot: &Snapshot,
    request: &Request<'_>,
    now: Timestamp,
) -> Result<Explanation, Undecided> {
    let checked = engine.check(snapshot, request, Commit::DryRun, now)?;
    Ok(explain_checked(snapshot, request, now, &checked))
}

/// Explains a request that was decided without being charged.
pub fn explain_checked(
    snapshot: &Snapshot,
    request: &Request<'_>,
    now: Timestamp,
    checked: &Checked<'_>,
) -> Explanation {
    let outcomes = &checked.decision.outcomes;
    let levels = checked.stack.levels.iter().zip(&checked.stack.limits);
    let hidden = |limit: &Limit| hidden_limit(limit, snapshot.hidden_by(request.org, limit));
    let applied = levels.zip(outcomes).map(|((level, limit), outcome)| Applied {
        policy_id: limit.id.to_string(),
        scope: limit.scope_name.to_string(),
        mode: mode_name(level.mode),
        algorithm: algorithm_name(limit),
        limit: limit.rule.limit,
        burst: limit.rule.algorithm.is_bucket().then_some(limit.rule.capacity),
        window: limit.window.to_string(),
        remaining: outcome.remaining,
        violated: !outcome.fits,
        from: origin(limit, hidden(limit)),
        hides: hidden(limit),
        source: limit.is_of_file().then_some("file"),
    });
    let enforced = (0..outcomes.len()).filter(|place| checked.stack.levels[*place].mode == Mode::Enforce);
    let least = enforced.min_by_key(|place| outcomes[*place].remaining);
    let skipped = snapshot
        .explain(request, now)
        .into_iter()
        .filter_map(|one| match one.verdict {
            Verdict::Applies => None,
            Verdict::Skipped(skip) => Some(Skipped {
                policy_id: one.limit.id.to_string(),
                reason: skip.to_string(),
            }),
        });
    Explanation {
        tier: checked.stack.tier.name.to_string(),
        rollout: Side::of(snapshot, request.org),
        endpoint: request.endpoint.as_ref().map(ToString::to_string),
        class: checked
            .stack
            .class
            .map(|class| snapshot.classes()[class as usize].to_string()),
        allowed: checked.decision.allowed,
        binds: checked
            .decision
            .binding
            .or(least)
            .map(|place| checked.stack.limits[place].id.to_string()),
        applied: applied.collect(),
        skipped: skipped.collect(),
        warnings: warnings::of_request(&checked.stack.limits)
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// An algorithm's name as policies write it.
pub fn algorithm_name(limit: &Limit) -> &'static str {
    match limit.rule.algorithm {
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::LeakyBucket => "leaky_bucket",
        Algorithm::FixedWindow(_) => "fixed_window",
        Algorithm::SlidingLog => "sliding_window_log",
        Algorithm::SlidingCounter => "sliding_window_counter",
        Algorithm::Quota(_) => "quota",
    }
}

/// The limit of the policy that an override has another one for.
pub fn hidden_limit(limit: &Limit, policy: Option<&Limit>) -> Option<u64> {
    policy
        .map(|policy| policy.rule.limit)
        .filter(|hidden| *hidden != limit.rule.limit)
}

/// Where a limit's values came from, in words, with the limit of the policy that it hides.
pub fn origin(limit: &Limit, hides: Option<u64>) -> String {
    let origin = &limit.origin;
    let line = |line: usize| {
        if line > 0 {
            format!(", line {line}")
        } else {
            String::new()
        }
    };
    let set = match origin.other_set.as_deref() {
        None => String::new(),
        Some(other) if other.candidate => format!("candidate of the rollout {}, tried: ", other.rollout),
        Some(other) => format!("active set, counted on during the rollout {}: ", other.rollout),
    };
    let Some(note) = &origin.overridden else {
        let tier = origin
            .tier
            .as_deref()
            .map_or("every tier".to_owned(), |tier| format!("tier {tier}"));
        return format!("{set}policy for {tier}{}", line(origin.line));
    };
    let mut words = format!("{set}override for {}{}", note.who, line(note.line));
    if let Some(hidden) = hides {
        let _ = write!(words, ", hides {} of the policy", grouped(hidden));
    }
    if let Some(reason) = &note.reason {
        let _ = write!(words, ", because: {reason}");
    }
    if let Some(expires) = note.expires {
        let mut at = Vec::new();
        rfc3339(expires, 0, &mut at);
        let _ = write!(words, ", until {}", String::from_utf8_lossy(&at));
    }
    words
}
