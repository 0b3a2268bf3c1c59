//! Decisions on stacks whose quotas a ledger keeps, and what is done while it is away.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_catalog::model::FailMode;
use tollgate_core::{Algorithm, Decision, Level, Mode, Rule, Timestamp};
use tollgate_counters::{Commit, OfLedger, StoreFull, Within};

use super::{Ledger, NoWait};
use crate::engine::{Checked, Deciding, Engine, Undecided, Wait};
use crate::names::{Names, Whose};

/// What of its share a node uses while it can't ask: seven parts of ten.
const SHARE: (u128, u128) = (7, 10);

/// How far the store has come with a stack.
struct SoFar<'a> {
    decided: Result<Within, StoreFull>,
    /// Quotas that are short, or run low.
    places: &'a [usize],
    may_wait: bool,
}

impl Engine {
    /// Decides a whole stack in this process.
    #[expect(
        clippy::inline_always,
        reason = "every decision of a server comes by, and the call costs as much as what it does itself"
    )]
    #[inline(always)]
    pub(crate) fn check_within<'s>(
        &self,
        ledger: &Ledger,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        may_wait: bool,
    ) -> Result<(), Undecided> {
        let Checked {
            stack,
            decision,
            now,
            held,
            ..
        } = checked;
        let mut deciding = Deciding {
            decision,
            held: held.as_deref_mut(),
        };
        let mut quotas = OfLedger::new(&[], self.store.journal());
        let parts = (&*stack.levels, &*stack.formers);
        let decided = self.decide_in_store(parts, *now, commit, Some(&mut quotas), &mut deciding);
        if decided == Ok(Within::Decided) && quotas.places().is_empty() && deciding.decision.allowed {
            checked.degraded = false;
            return Ok(());
        }
        let names = Names {
            stack,
            only: None,
            whose,
            revision: 0,
            charges: None,
        };
        let so_far = SoFar {
            decided,
            places: quotas.places(),
            may_wait,
        };
        checked.degraded = self.see_to(ledger, &names, *now, commit, &so_far, deciding)?;
        Ok(())
    }

    /// Decides what names are of, as far as the ledger allows. What may not wait does as its quotas' fail modes say;
    /// tells whether they had to.
    pub(crate) fn decide_within(
        &self,
        ledger: &Ledger,
        names: &Names<'_, '_, '_>,
        now: Timestamp,
        commit: Commit,
        may_wait: bool,
        mut deciding: Deciding<'_>,
    ) -> Result<bool, Undecided> {
        let parts = (names.levels(), names.formers());
        let mut quotas = OfLedger::new(&[], self.store.journal());
        let decided = self.decide_in_store(parts, now, commit, Some(&mut quotas), &mut deciding);
        let so_far = SoFar {
            decided,
            places: quotas.places(),
            may_wait,
        };
        self.see_to(ledger, names, now, commit, &so_far, deciding)
    }

    /// Sees to what the store has left open: quotas that run low, or of which there is not enough here.
    #[inline(never)]
    fn see_to(
        &self,
        ledger: &Ledger,
        names: &Names<'_, '_, '_>,
        now: Timestamp,
        commit: Commit,
        so_far: &SoFar<'_>,
        deciding: Deciding<'_>,
    ) -> Result<bool, Undecided> {
        let (decision, places) = (&mut *deciding.decision, so_far.places);
        match so_far.decided {
            Ok(Within::Decided) => {
                if !places.is_empty() {
                    ledger.run_low(names, places, now);
                }
                if !decision.allowed {
                    ledger.denied(names, decision, now);
                }
                Ok(false)
            }
            Ok(Within::Short) if so_far.may_wait => match ledger.ask(names, places, now) {
                Ok(wait) => Err(Undecided::Waits(Wait::Ledger(wait))),
                Err(NoWait::Crowded) if !self.shadow_all => Err(Undecided::Crowded),
                Err(_) => self.decide_without(ledger, names, places, now, commit, deciding),
            },
            Ok(Within::Short) => self.decide_without(ledger, names, places, now, commit, deciding),
            Err(full) if !self.shadow_all => Err(full.into()),
            Err(_) => {
                // The kill switch refuses nothing, not even what there is no room to count.
                *decision = Decision::pending();
                let (levels, formers) = (names.levels(), names.formers());
                self.store
                    .decide(levels, formers, now, Commit::DryRun, decision)?;
                Ok(false)
            }
        }
    }

    /// Decides while the ledger is away and some quotas are short.
    #[cold]
    fn decide_without(
        &self,
        ledger: &Ledger,
        names: &Names<'_, '_, '_>,
        short: &[usize],
        now: Timestamp,
        commit: Commit,
        mut deciding: Deciding<'_>,
    ) -> Result<bool, Undecided> {
        let whole = names.levels();
        // What refuses nothing, or is only looked at, keeps nobody out.
        let speaks = |place: &usize| {
            let level = &whole[*place];
            level.mode == Mode::Enforce && level.cost > 0
        };
        let speaking: SmallVec<[usize; 2]> = short.iter().copied().filter(speaks).collect();
        let says = |place: usize| names.limit(place).fail_mode;
        if speaking.iter().any(|place| says(*place) == FailMode::Closed) {
            ledger.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Undecided::LedgerAway);
        }
        if commit == Commit::Charge {
            ledger.will_owe(names, short, now);
        }
        let local = |place: &usize| says(*place) == FailMode::Local;
        let local: SmallVec<[usize; 2]> = speaking.iter().copied().filter(local).collect();
        let share = |place: &usize| share_of(whole[*place].rule, ledger.nodes());
        let rules: SmallVec<[Rule; 2]> = local.iter().map(share).collect();
        // A share is another count than the quota, which is counted too.
        let apart = self.seed().id(b"a share of a quota");
        let mut levels: SmallVec<[Level<'_>; 4]> = whole.iter().copied().collect();
        for (place, rule) in local.iter().zip(&rules) {
            let level = whole[*place];
            levels.push(Level {
                rule,
                key: level.key.and(apart),
                ..level
            });
        }
        let parts = (&*levels, names.formers());
        let mut quotas = OfLedger::new(short, self.store.journal());
        let decided = self.decide_in_store(parts, now, commit, Some(&mut quotas), &mut deciding)?;
        if decided == Within::Short {
            return Err(Undecided::LedgerAway);
        }
        tell_shares(deciding.decision, &local, whole.len());
        if !speaking.is_empty() {
            ledger.counts.let_off.fetch_add(1, Ordering::Relaxed);
        }
        // What is told of a quota that nobody could ask for may be wrong, even where it keeps nobody out.
        Ok(true)
    }
}

/// Has quotas tell what is left of the shares that stood behind the stack.
fn tell_shares(decision: &mut Decision, local: &[usize], count: usize) {
    for (place, number) in local.iter().zip(count..) {
        let share = decision.outcomes[number];
        let outcome = &mut decision.outcomes[*place];
        outcome.fits &= share.fits;
        outcome.remaining = outcome.remaining.min(share.remaining);
        if decision.binding == Some(number) {
            decision.binding = Some(*place);
        }
    }
    decision.outcomes.truncate(count);
}

/// A node's share of a limit while the ledger is away.
fn share_of(rule: &Rule, nodes: u64) -> Rule {
    let share = u128::from(rule.limit) * SHARE.0 / (SHARE.1 * u128::from(nodes));
    let share = u64::try_from(share).unwrap_or(rule.limit);
    let share = share.max(u64::from(rule.limit > 0));
    Rule::new(Algorithm::TokenBucket, share, Some(share), rule.window_ns)
}
