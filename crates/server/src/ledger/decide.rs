//! Decisions on stacks whose quotas a ledger keeps, and what is done while it is away.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_catalog::model::FailMode;
use tollgate_core::{Algorithm, Decision, Level, Mode, Rule};
use tollgate_counters::{Commit, Within};

use super::{Ledger, NoWait};
use crate::engine::{Checked, Engine, Undecided, Wait};
use crate::names::{Names, Whose};

/// What of its share a node uses while it can't ask: seven parts of ten.
const SHARE: (u128, u128) = (7, 10);

impl Engine {
    /// Decides a resolved request. One that may not wait does as its quotas' fail modes say.
    #[inline]
    pub(crate) fn check_within<'s>(
        &self,
        ledger: &Ledger,
        mut checked: Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        may_wait: bool,
    ) -> Result<Checked<'s>, Undecided> {
        let decided = self.decide_in_store(&mut checked, commit, Some(&[]));
        let Checked {
            stack, decision, now, ..
        } = &mut checked;
        let now = *now;
        let (levels, formers) = (&stack.levels, &stack.formers);
        let names = Names {
            stack,
            whose,
            revision: 0,
        };
        match decided {
            Ok(Within::Decided(low)) => {
                if !low.is_empty() {
                    ledger.run_low(&names, &low, now);
                }
                if !decision.allowed {
                    ledger.denied(&names, decision, now);
                }
                Ok(checked)
            }
            Ok(Within::Short(short)) if may_wait => match ledger.ask(&names, &short, now) {
                Ok(wait) => Err(Undecided::Waits(Wait::Ledger(wait))),
                Err(NoWait::Crowded) if !self.shadow_all => Err(Undecided::Crowded),
                Err(_) => self.check_without(ledger, checked, &short, commit),
            },
            Ok(Within::Short(short)) => self.check_without(ledger, checked, &short, commit),
            Err(full) if !self.shadow_all => Err(full.into()),
            Err(_) => {
                // The kill switch refuses nothing, not even what there is no room to count.
                *decision = Decision::pending();
                self.store
                    .decide(levels, formers, now, Commit::DryRun, decision)?;
                Ok(checked)
            }
        }
    }

    /// Decides while the ledger is away and some quotas are short.
    #[cold]
    fn check_without<'s>(
        &self,
        ledger: &Ledger,
        mut checked: Checked<'s>,
        short: &[usize],
        commit: Commit,
    ) -> Result<Checked<'s>, Undecided> {
        let Checked {
            stack,
            decision,
            now,
            held,
            ..
        } = &mut checked;
        // What refuses nothing, or is only looked at, keeps nobody out.
        let speaks = |place: &usize| {
            let level = &stack.levels[*place];
            level.mode == Mode::Enforce && level.cost > 0
        };
        let speaking: SmallVec<[usize; 2]> = short.iter().copied().filter(speaks).collect();
        let says = |place: usize| stack.limits[place].fail_mode;
        if speaking.iter().any(|place| says(*place) == FailMode::Closed) {
            ledger.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Undecided::LedgerAway);
        }
        let local = |place: &usize| says(*place) == FailMode::Local;
        let local: SmallVec<[usize; 2]> = speaking.iter().copied().filter(local).collect();
        let share = |place: &usize| share_of(stack.levels[*place].rule, ledger.nodes());
        let rules: SmallVec<[Rule; 2]> = local.iter().map(share).collect();
        // A share is another count than the quota, which is counted too.
        let apart = self.seed().id(b"a share of a quota");
        let mut levels: SmallVec<[Level<'_>; 4]> = stack.levels.iter().copied().collect();
        for (place, rule) in local.iter().zip(&rules) {
            let level = stack.levels[*place];
            levels.push(Level {
                rule,
                key: level.key.and(apart),
                ..level
            });
        }
        let stood = (&*levels, &*stack.formers);
        let decided = match held {
            Some(holds) if commit == Commit::Charge => {
                self.store
                    .decide_held(stood, *now, decision, Some(short), holds)?
            }
            _ => self
                .store
                .decide_within(stood.0, stood.1, *now, commit, decision, short)?,
        };
        if matches!(decided, Within::Short(_)) {
            return Err(Undecided::LedgerAway);
        }
        tell_shares(decision, &local, stack.levels.len());
        // What is told of a quota that nobody could ask for may be wrong, even where it keeps nobody out.
        checked.degraded = true;
        if !speaking.is_empty() {
            ledger.counts.let_off.fetch_add(1, Ordering::Relaxed);
        }
        Ok(checked)
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
