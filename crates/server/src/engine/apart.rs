//! Stacks of a fleet whose quotas a ledger keeps: quotas are counted in this process, in chunks of what the ledger
//! allows, and everything else where the fleet counts.
//!
//! Quotas come first, since what they were charged can be given back at once: a stack that the fleet refuses, or
//! can't decide, charges nothing. A stack that a quota refuses is only looked at elsewhere.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_catalog::model::Accuracy;
use tollgate_catalog::snapshot::Stack;
use tollgate_core::{Allowance, Decision, Former, Level, Mode, Outcomes, Timestamp};
use tollgate_counters::shared::node::{Answer, Asked, Claim};
use tollgate_counters::shared::{SharedStore, Taken};
use tollgate_counters::{Commit, Holds};

use super::{Checked, Deciding, Engine, Said, Undecided, Wait};
use crate::ledger::Ledger;
use crate::names::{Names, Whose};

/// Some levels of a stack, in its order.
#[derive(Default)]
pub(crate) struct Selection<'s> {
    pub(crate) levels: SmallVec<[Level<'s>; 4]>,
    pub(crate) formers: SmallVec<[Former<'s>; 0]>,
    /// Where these are in the stack.
    pub(crate) places: SmallVec<[usize; 4]>,
    pub(crate) former_places: SmallVec<[usize; 0]>,
}

impl<'s> Selection<'s> {
    /// Quotas, or all that is none.
    fn of(stack: &Stack<'s>, quotas: bool) -> Self {
        let mut selection = Self::default();
        for (place, level) in stack.levels.iter().enumerate() {
            if level.rule.is_quota() != quotas {
                continue;
            }
            for (number, former) in stack.formers.iter().enumerate() {
                if former.level == place {
                    selection.add_former(former, number, quotas);
                }
            }
            selection.levels.push(*level);
            selection.places.push(place);
        }
        selection
    }

    fn add_former(&mut self, former: &Former<'s>, number: usize, quota: bool) {
        // What was counted in the other place is not known here.
        let whole = former.whole && former.rule.is_quota() == quota;
        let level = self.levels.len();
        self.formers.push(Former {
            level,
            whole,
            ..*former
        });
        self.former_places.push(number);
    }
}

/// What quotas have said, and were charged, while the fleet is asked. Whoever stops waiting leaves them charged, since
/// the rest of the stack may be.
#[derive(Debug)]
pub struct Held {
    decision: Decision,
    degraded: bool,
    /// What they were charged.
    holds: Holds,
}

impl Engine {
    /// Decides quotas here and the rest where the fleet does.
    pub(super) fn check_apart<'s>(
        &self,
        (shared, ledger): (&Arc<SharedStore>, &Ledger),
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        may_wait: bool,
    ) -> Result<(), Undecided> {
        let stack = &checked.stack;
        let quotas = Selection::of(stack, true);
        if quotas.levels.is_empty() {
            return self.check_shared(shared, checked, whose, commit);
        }
        let others = Selection::of(stack, false);
        let names = self.names(stack, Some(&quotas), whose);
        let exact = |place| names.limit(place).accuracy == Accuracy::Exact;
        if (0..quotas.levels.len()).any(exact) {
            let others = self.names(stack, Some(&others), whose);
            if let Some(decision) = self.refuse(shared, &names, &others, checked.now)? {
                checked.decision = decision;
                return Ok(());
            }
        }
        let (mut decision, mut holds) = (Decision::pending(), Holds::new());
        let deciding = Deciding {
            decision: &mut decision,
            held: Some(&mut holds),
        };
        let degraded = self.decide_within(ledger, &names, checked.now, commit, may_wait, deciding)?;
        if others.levels.is_empty() {
            (checked.decision, checked.degraded) = (decision, degraded);
            hold(checked, &quotas, &holds);
            return Ok(());
        }
        let held = Held {
            decision,
            degraded,
            holds,
        };
        let others = Names {
            charges: checked.charges.as_deref(),
            ..self.names(stack, Some(&others), whose)
        };
        let mut decision = Decision::pending();
        let said = if held.decision.allowed {
            self.ask(shared, &others, commit, Claim::default(), &mut decision)
        } else {
            look(shared, &others, &mut decision)
        };
        self.join(checked, whose, held, said, decision)
    }

    /// Refuses what the fleet is known to refuse, where the ledger would have to be asked for each request: it need not
    /// be for this one.
    fn refuse(
        &self,
        shared: &Arc<SharedStore>,
        quotas: &Names<'_, '_, '_>,
        others: &Names<'_, '_, '_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, Undecided> {
        let mut refused = Decision::pending();
        look(shared, others, &mut refused)?;
        if refused.binding.is_none() {
            return Ok(None);
        }
        let mut decision = Decision::pending();
        let (levels, formers) = (quotas.levels(), quotas.formers());
        self.store
            .decide(levels, formers, now, Commit::DryRun, &mut decision)?;
        if decision
            .outcomes
            .iter()
            .any(|outcome| Allowance::of(outcome.cell).is_none())
        {
            return Ok(None);
        }
        uncharge(levels, &mut decision, now);
        Ok(Some(joined(quotas.stack, decision, refused)))
    }

    /// Goes on with a stack whose quotas are held.
    pub(super) fn go_on_apart<'s>(
        &self,
        shared: &Arc<SharedStore>,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        answer: Answer,
        held: Held,
    ) -> Result<(), Undecided> {
        let others = Selection::of(&checked.stack, false);
        let names = Names {
            charges: checked.charges.as_deref(),
            ..self.names(&checked.stack, Some(&others), whose)
        };
        let mut decision = Decision::pending();
        let said = self.hear(shared, &names, commit, answer, &mut decision);
        self.join(checked, whose, held, said, decision)
    }

    /// Joins what quotas and the rest have said. What was held goes back unless both allow it.
    fn join<'s>(
        &self,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        mut held: Held,
        said: Result<Said, Undecided>,
        others: Decision,
    ) -> Result<(), Undecided> {
        if let Err(Undecided::Waits(Wait::Shared(wait, _))) = said {
            return Err(Undecided::Waits(Wait::Shared(wait, Some(Box::new(held)))));
        }
        if held.decision.allowed && (said.is_err() || !others.allowed) {
            self.give_up(checked, whose, &mut held);
        }
        let said = said?;
        if held.decision.allowed && others.allowed {
            hold(checked, &Selection::of(&checked.stack, true), &held.holds);
            let places = Selection::of(&checked.stack, false).places;
            for charge in checked.charges.iter_mut().flat_map(|charges| charges.get_mut()) {
                charge.place = places[charge.place];
            }
        }
        checked.decision = joined(&checked.stack, held.decision, others);
        checked.now = said.at;
        checked.degraded = held.degraded || said.degraded;
        Ok(())
    }

    /// Gives back what quotas were charged, and tells of them as if they had not been.
    fn give_up<'s>(&self, checked: &Checked<'s>, whose: Whose<'_, 's, '_>, held: &mut Held) {
        let quotas = Selection::of(&checked.stack, true);
        let backs: SmallVec<[_; 2]> = held.holds.iter().map(|hold| (*hold, hold.cost)).collect();
        if !backs.is_empty() {
            self.store.release(&backs, checked.now);
            if let Some(ledger) = self.ledger.get() {
                let names = self.names(&checked.stack, Some(&quotas), whose);
                ledger.gave_up(&names, checked.now);
            }
        }
        uncharge(&quotas.levels, &mut held.decision, checked.now);
    }
}

/// Keeps what quotas were charged for somebody who may give it back.
fn hold(checked: &mut Checked<'_>, quotas: &Selection<'_>, holds: &Holds) {
    if let Some(held) = &mut checked.held {
        for mut hold in holds.iter().copied() {
            // Behind the stack are counters that only stood in for others.
            hold.place = quotas.places.get(hold.place).copied().unwrap_or(usize::MAX);
            held.push(hold);
        }
    }
}

/// Has a decision tell what there was before it.
fn uncharge(levels: &[Level<'_>], decision: &mut Decision, now: Timestamp) {
    for (level, outcome) in levels.iter().zip(&mut decision.outcomes) {
        if std::mem::take(&mut outcome.charged) {
            outcome.cell = level.rule.uncharge(outcome.cell, level.cost);
            outcome.remaining = level.rule.remaining(outcome.cell, now);
        }
    }
}

/// What is known here of limits that the fleet counts, for a request that is refused anyway.
fn look(
    shared: &Arc<SharedStore>,
    names: &Names<'_, '_, '_>,
    decision: &mut Decision,
) -> Result<Said, Undecided> {
    let asked = Asked {
        refused: true,
        ..names.asked(Commit::DryRun)
    };
    match shared.decide(&asked, Claim::default(), decision)? {
        Taken::Decided(at) => Ok(Said { at, degraded: false }),
        // Nobody is asked.
        Taken::Waits(_) | Taken::Away | Taken::Crowded => Err(Undecided::StoreAway),
    }
}

/// One decision of two, in the order of the stack.
fn joined(stack: &Stack<'_>, quotas: Decision, others: Decision) -> Decision {
    let place = |of_quotas: bool, number: Option<usize>| {
        let levels = stack.levels.iter().enumerate();
        let mut levels = levels.filter(|(_, level)| level.rule.is_quota() == of_quotas);
        number
            .and_then(|number| levels.nth(number))
            .map(|(place, _)| place)
    };
    let binding = match (place(true, quotas.binding), place(false, others.binding)) {
        (Some(quota), Some(other)) if quotas.retry == others.retry => Some(quota.min(other)),
        (Some(quota), Some(_)) if quotas.retry > others.retry => Some(quota),
        (quota, other) => other.or(quota),
    };
    let allowed = quotas.allowed && others.allowed;
    let delay = if allowed {
        quotas.delay.max(others.delay)
    } else {
        0
    };
    let retry = quotas.retry.max(others.retry);
    let (mut quotas, mut others) = (quotas.outcomes.into_iter(), others.outcomes.into_iter());
    let outcomes = stack.levels.iter().filter_map(|level| {
        if level.rule.is_quota() {
            quotas.next()
        } else {
            others.next()
        }
    });
    let outcomes: Outcomes = outcomes.collect();
    let enforced = stack.levels.iter().zip(&outcomes);
    let enforced = enforced.filter(|(level, _)| level.mode == Mode::Enforce);
    Decision {
        allowed,
        all_fit: outcomes.iter().all(|outcome| outcome.fits),
        binding,
        remaining: enforced.map(|(_, outcome)| outcome.remaining).min(),
        retry,
        delay,
        outcomes,
    }
}
