//! Charges for what is spent later, by somebody else.

use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::Commit;

use super::{Checked, Engine, Heard, Patience, Undecided};
use crate::names::Whose;

impl Engine {
    /// Decides and charges a request so that it may be given back, each level by so much more, and waits if that must be.
    pub(crate) async fn lease_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        extras: &[u64],
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut leased = self.lease(snapshot, request, extras, now, None);
        let mut patience = Patience::default();
        while !patience.is_over() {
            match leased {
                Err(Undecided::Waits(wait)) => {
                    let heard = wait.answer(&mut patience).await;
                    leased = self.lease(snapshot, request, extras, now, Some(heard));
                }
                decided => return decided,
            }
        }
        leased
    }

    fn lease<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        extras: &[u64],
        now: Timestamp,
        heard: Option<Heard>,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = Checked::blank(snapshot, now);
        self.resolve(snapshot, request, &mut checked)?;
        for (level, extra) in checked.stack.levels.iter_mut().zip(extras) {
            level.cost = level.cost.saturating_add(*extra);
        }
        checked.held = Some(Box::default());
        match heard {
            None => self.begin(&mut checked, Whose::One(request), Commit::Charge)?,
            Some(heard) => self.go_on(&mut checked, Whose::One(request), Commit::Charge, heard)?,
        }
        Ok(checked)
    }
}
