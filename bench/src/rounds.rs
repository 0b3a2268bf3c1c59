//! Interleaved rounds: each contender runs a slice in turn, so that whatever the machine does, it does to
//! all of them. The median round counts.

use std::time::Instant;

/// What was measured of one contender, in nanoseconds for each operation.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) nanos: f64,
}

pub(crate) type Contender<'a> = (&'static str, Box<dyn FnMut(usize) + 'a>);

const ROUNDS: usize = 41;

/// Runs every contender for so many operations a round; the first round only warms up.
pub(crate) fn measure(operations: usize, mut contenders: Vec<Contender<'_>>) -> Vec<Measured> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for round in 0..=ROUNDS {
        for (times, (_, run)) in times.iter_mut().zip(&mut contenders) {
            let started = Instant::now();
            run(operations);
            if round > 0 {
                times.push(started.elapsed().as_nanos() as f64 / operations as f64);
            }
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times
        .iter_mut()
        .zip(&contenders)
        .map(|(times, (name, _))| Measured {
            name,
            nanos: median(times),
        })
        .collect()
}

/// Keeps this thread on one core.
pub(crate) fn pin(core: usize) {
    // By number, not from the list of those allowed: that one has shrunk to a single core in a thread's child.
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// A cheap sequence of numbers in no order.
pub(crate) struct Shuffled(u64);

impl Shuffled {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Another one for each number.
    pub(crate) fn of(number: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (number + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap_or(0)
    }
}
