//! What the store has seen of a request, as the decision that clients are told.

use tollgate_core::{Decision, Level, Mode, Outcome};

use super::call::{Micros, Part, Seen, Subject, instant};

/// The decision on a need whose parts are `levels`, from what was seen of them at `now`.
pub fn decision(
    levels: &[Level<'_>],
    parts: &[Part],
    subjects: &[Subject],
    seen: &[Seen],
    now: Micros,
) -> Decision {
    let mut decision = Decision::pending();
    for ((level, part), seen) in levels.iter().zip(parts).zip(seen) {
        let outcome = Outcome {
            fits: seen.fits,
            charged: false,
            cell: seen.state.cell(&subjects[part.subject].terms),
            remaining: 0,
        };
        decision.allowed &= outcome.passes(level);
        decision.outcomes.push(outcome);
    }
    if decision.allowed {
        for (level, outcome) in levels.iter().zip(&mut decision.outcomes) {
            outcome.charged = level.cost > 0 && (outcome.fits || level.mode == Mode::Soft);
        }
    }
    decision.sum_up(levels, instant(now));
    decision
}
