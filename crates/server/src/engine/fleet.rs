//! Decisions where a fleet counts, and what is done while its store is away.

use std::sync::Arc;

use tollgate_catalog::model::FailMode;
use tollgate_core::Decision;
use tollgate_counters::Commit;
use tollgate_counters::shared::node::{Answer, Asked, Claim, Fail, Fallback};
use tollgate_counters::shared::{SharedStore, Taken};

use super::{Checked, Engine, Said, Undecided, Wait};
use crate::names::{Names, Whose};

impl Engine {
    /// Decides a whole stack where a fleet does.
    pub(super) fn check_shared<'s>(
        &self,
        shared: &Arc<SharedStore>,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
    ) -> Result<(), Undecided> {
        let Checked {
            stack,
            decision,
            charges,
            ..
        } = checked;
        let names = Names {
            charges: charges.as_deref(),
            ..self.names(stack, None, whose)
        };
        let said = self.ask(shared, &names, commit, Claim::default(), decision)?;
        checked.was_said(said);
        Ok(())
    }

    /// Asks the store that a fleet shares.
    pub(super) fn ask(
        &self,
        shared: &Arc<SharedStore>,
        names: &Names<'_, '_, '_>,
        commit: Commit,
        claim: Claim,
        decision: &mut Decision,
    ) -> Result<Said, Undecided> {
        match shared.decide(&names.asked(commit), claim, decision)? {
            Taken::Decided(at) => Ok(Said { at, degraded: false }),
            Taken::Waits(wait) => Err(Undecided::Waits(Wait::Shared(wait, None))),
            Taken::Crowded if !self.shadow_all => Err(Undecided::Crowded),
            Taken::Away | Taken::Crowded => self.do_without(shared, names, commit, decision),
        }
    }

    /// Goes on with what it has answered.
    pub(super) fn hear(
        &self,
        shared: &Arc<SharedStore>,
        names: &Names<'_, '_, '_>,
        commit: Commit,
        answer: Answer,
        decision: &mut Decision,
    ) -> Result<Said, Undecided> {
        match answer {
            Answer::Decided(settled) => {
                if let Some(charges) = names.charges {
                    charges.borrow_mut().clone_from(&settled.charges);
                }
                settled.fill(names.levels(), decision);
                Ok(Said {
                    at: settled.at,
                    degraded: false,
                })
            }
            Answer::Again(claim) => self.ask(shared, names, commit, claim, decision),
            Answer::Away => self.do_without(shared, names, commit, decision),
        }
    }

    /// Decides while the shared store is away.
    #[cold]
    pub(super) fn do_without(
        &self,
        shared: &SharedStore,
        names: &Names<'_, '_, '_>,
        commit: Commit,
        decision: &mut Decision,
    ) -> Result<Said, Undecided> {
        let fail = |place: usize| match names.limit(place).fail_mode {
            FailMode::Open => Fail::Open,
            FailMode::Closed => Fail::Closed,
            FailMode::Local => Fail::Local,
        };
        *decision = Decision::pending();
        // Nobody knows where what a fallback lets through will be charged.
        let asked = Asked {
            charges: None,
            ..names.asked(commit)
        };
        if let Some(charges) = names.charges {
            charges.borrow_mut().clear();
        }
        match shared.decide_away(&asked, &fail, &self.store, decision)? {
            Fallback::Decided { at, without } => Ok(Said {
                at,
                degraded: !without.is_empty(),
            }),
            Fallback::Closed => Err(Undecided::StoreAway),
        }
    }
}
