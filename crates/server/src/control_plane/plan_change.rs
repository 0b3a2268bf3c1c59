//! What becomes of what an org has used of its quotas when its plan changes in the middle of a period.

use tollgate_catalog::repository::{Correcting, Correction, Kept};
use tollgate_catalog::snapshot::Snapshot;

use super::ask::Ask;
use super::quotas::{asked_by, ledger, reserved};
use crate::answer::Problem;
use crate::catalogue::WriteError;
use crate::clock;

/// Rows that are looked at in one question to the database.
const PAGE: i64 = 1_000;

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// It stays what it is.
    Whole,
    /// It stays the same part of the limit.
    Proportional,
    /// Nothing was used.
    Nothing,
}

impl Carried {
    /// What is asked for.
    pub(super) fn asked(ask: &Ask) -> Result<Self, Problem> {
        match ask.query.get("usage").map(String::as_str) {
            None | Some("carry") => Ok(Self::Whole),
            Some("proportional") => Ok(Self::Proportional),
            Some("reset") => Ok(Self::Nothing),
            Some(_) => Err(Problem::bad_request(
                "`usage` can only be carry, proportional or reset.",
            )),
        }
    }

    /// How a row is corrected that had one limit and has another now.
    fn correction(self, before: u64, now: u64) -> Option<Correction> {
        match self {
            Self::Proportional if before != now => Some(Correction::Scale(before, now)),
            Self::Nothing => Some(Correction::Used(0)),
            Self::Whole | Self::Proportional => None,
        }
    }
}

/// Corrects what the org has used of its quotas, now that its plan is another than before.
pub(super) async fn follow(ask: &Ask, org: &str, carried: Carried, before: &Snapshot) -> Result<(), Problem> {
    if carried == Carried::Whole {
        return Ok(());
    }
    let ledger = ledger(ask)?;
    // What this node has spent and not told yet was spent before.
    ledger.refresh(org).await;
    let snapshot = ask.plane.engine.snapshot_full();
    let now = clock::now();
    let mut after = None;
    let open = reserved(ask, org).await;
    let reserved = |kept: &Kept| open.get(&(kept.name, kept.row.ends)).copied().unwrap_or(0);
    loop {
        let rows = ledger
            .repository()
            .ledger_of(ledger.region(), org, after.as_ref(), PAGE);
        let rows = rows.await.map_err(WriteError::from)?;
        for kept in rows.iter().filter(|kept| !kept.row.is_over(now)) {
            let label = kept.label();
            let request = asked_by(org, &label);
            let limit = |of: &Snapshot| Some(of.quotas_on(&kept.name, &request, now).first()?.rule.limit);
            let limits = limit(before).zip(limit(&snapshot));
            let correction = limits.and_then(|(old, new)| carried.correction(old, new));
            if let Some(correction) = correction {
                let correcting = Correcting {
                    place: (ledger.region(), org, &kept.name),
                    correction,
                    reserved: &reserved,
                    author: &ask.author("a change of plan"),
                    dry_run: false,
                    once: None,
                };
                let corrected = ledger.repository().correct(&correcting).await;
                // A row that is gone by now has nothing to be corrected.
                corrected.map_err(WriteError::from)?;
            }
        }
        after = rows.last().map(|kept| kept.name);
        if rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
            break;
        }
    }
    ledger.refresh(org).await;
    Ok(())
}
