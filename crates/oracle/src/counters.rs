//! Many counters, decided a stack at a time: all charged, or none.

use std::collections::BTreeMap;

use crate::counter::Counter;
use crate::limit::{Level, Mode};
use crate::verdict::{LevelVerdict, Verdict};

/// Every counter that was ever charged.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<u64, Counter>);

impl Counters {
    /// Decides a stack: allowed if every enforced level has room, and then each level that has room, or is
    /// soft, is charged. A count that two levels share is charged once.
    pub fn decide(&mut self, stack: &[Level], now: u64) -> Verdict {
        let time = u128::from(now);
        let before: Vec<Counter> = stack.iter().map(|level| self.counter(level)).collect();
        let fits: Vec<bool> = stack
            .iter()
            .zip(&before)
            .map(|(level, counter)| counter.fits(level, time))
            .collect();
        let allowed = stack
            .iter()
            .zip(&fits)
            .all(|(level, fits)| *fits || level.mode != Mode::Enforce);

        let mut charged = vec![false; stack.len()];
        let mut paid: Vec<u64> = Vec::new();
        for (place, level) in stack.iter().enumerate().filter(|_| allowed) {
            charged[place] = level.cost > 0 && (fits[place] || level.mode == Mode::Soft);
            if charged[place] && !paid.contains(&level.counter) {
                paid.push(level.counter);
                let mut counter = before[place].clone();
                counter.take(level, time);
                self.0.insert(level.counter, counter);
            }
        }

        let levels = stack
            .iter()
            .enumerate()
            .map(|(place, level)| {
                let after = self.counter(level);
                let waits_turn = charged[place];
                LevelVerdict {
                    violated: !fits[place],
                    charged: charged[place],
                    remaining: after.remaining(level, time),
                    reset_ns: after.reset_ns(level, time),
                    wait_ns: if fits[place] || charged[place] {
                        Some(0)
                    } else {
                        before[place].wait_ns(level, time)
                    },
                    delay_ns: if waits_turn {
                        before[place].delay_ns(level, time)
                    } else {
                        0
                    },
                }
            })
            .collect();
        Verdict::of(stack, allowed, levels)
    }

    /// A copy of a level's counter; an untouched one if nothing was charged yet.
    pub fn counter(&self, level: &Level) -> Counter {
        let counter = self.0.get(&level.counter).cloned();
        counter.unwrap_or_else(|| Counter::new(level.limit.kind))
    }
}
