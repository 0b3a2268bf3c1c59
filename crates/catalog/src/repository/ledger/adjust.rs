//! Corrections of what was used, by hand and in the audit.

use tollgate_core::MAX_COUNT;

use super::{Kept, LedgerName, hex, kept, signed};
use crate::repository::database::in_time;
use crate::repository::turn::Turn;
use crate::repository::{Author, Claimed, Kind, Place, Repository, RepositoryError};

/// What is to become of what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// It was so much.
    Used(u64),
    /// So much less.
    Grant(u64),
    /// The same part of another limit, rounded up: of the first, as of the second.
    Scale(u64, u64),
}

/// What became of a correction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corrected {
    /// It is done: the row before and after.
    Done(Box<[Kept; 2]>),
    /// The org has no such row, or its period is over.
    Absent,
    /// Only so much was used.
    TooMuch(u64),
    /// Another has taken over the request that this was for.
    Overtaken,
}

/// A correction that is asked for.
pub struct Correcting<'a> {
    /// The region, the org and the counter's name.
    pub place: (&'a str, &'a str, &'a LedgerName),
    /// What is to become of it.
    pub correction: Correction,
    /// What of it is reserved: that is no part of what was used, and may go back.
    pub reserved: &'a (dyn Fn(&Kept) -> u64 + Send + Sync),
    /// Who corrects it, and why.
    pub author: &'a Author,
    /// Nothing is changed.
    pub dry_run: bool,
    /// By which claim it is done once, and what is answered to it ever after.
    pub once: Option<(&'a Claimed, Answering<'a>)>,
}

/// What is answered to a correction, by the row after it.
pub type Answering<'a> = &'a (dyn Fn(&Kept) -> (i64, String) + Send + Sync);

impl Repository {
    /// Corrects what was used in the present period of an org's row, and notes it in the journal. What nodes hold stays
    /// debited.
    pub async fn correct(&self, correcting: &Correcting<'_>) -> Result<Corrected, RepositoryError> {
        in_time(self.correct_now(correcting)).await
    }

    async fn correct_now(&self, correcting: &Correcting<'_>) -> Result<Corrected, RepositoryError> {
        let ((region, org, name), author) = (correcting.place, correcting.author);
        let mut turn = Turn::take(self).await?;
        // Changed to what it is: that takes the row's lock.
        let row = sqlx::query(
            "UPDATE tollgate_ledger SET mark = mark WHERE region = $1 AND org = $2 AND name = $3 AND ends > $4 \
             RETURNING name, generation, starts, ends, mark, used, alerted, reported, org, label, most",
        )
        .bind(region)
        .bind(org)
        .bind(hex(name))
        .bind(author.at_ms.saturating_mul(1_000_000))
        .fetch_optional(turn.connection())
        .await?;
        let Some(row) = row else {
            turn.leave().await?;
            return Ok(Corrected::Absent);
        };
        let before = kept(&row)?;
        let reserved = (correcting.reserved)(&before).min(before.row.used);
        let known = before.row.used - reserved;
        let used = match correcting.correction {
            Correction::Used(used) => used,
            Correction::Scale(of, limit) => scaled(known, of, limit),
            Correction::Grant(grant) if grant <= known => known - grant,
            Correction::Grant(_) => {
                turn.leave().await?;
                return Ok(Corrected::TooMuch(known));
            }
        };
        let used = used.saturating_add(reserved).min(MAX_COUNT);
        let mut after = before.clone();
        let held = before.row.mark.saturating_sub(before.row.used);
        after.row.mark = held.saturating_add(used).min(MAX_COUNT);
        after.row.used = used;
        let done = Corrected::Done(Box::new([before.clone(), after.clone()]));
        if correcting.dry_run {
            turn.leave().await?;
            return Ok(done);
        }
        sqlx::query("UPDATE tollgate_ledger SET mark = $3, used = $4 WHERE region = $1 AND name = $2")
            .bind(region)
            .bind(hex(name))
            .bind(signed(after.row.mark))
            .bind(signed(after.row.used))
            .execute(turn.connection())
            .await?;
        let place = Place {
            kind: Kind::Quota,
            org: org.to_owned(),
            id: hex(name),
        };
        let (was, is) = (noted(&before), noted(&after));
        turn.add(author, &place, Some(&was), Some(&is)).await?;
        if let Some((claimed, answer)) = correcting.once {
            let (status, response) = answer(&after);
            if !claimed.keep(turn.connection(), status, &response).await? {
                turn.leave().await?;
                return Ok(Corrected::Overtaken);
            }
        }
        turn.end().await?;
        Ok(done)
    }
}

/// The same part of another limit.
fn scaled(used: u64, of: u64, limit: u64) -> u64 {
    if of == 0 {
        return used;
    }
    let part = (u128::from(used) * u128::from(limit)).div_ceil(u128::from(of));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// What the journal keeps of a row.
fn noted(kept: &Kept) -> String {
    format!("{{\"used\":{},\"quota\":{}}}", kept.row.used, kept.label)
}
