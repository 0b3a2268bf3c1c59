//! The only reader of clocks that decisions depend on.
//!
//! Asking the system for the time has the processor finish first what it has begun, which takes as long as a third of a
//! decision. So it is asked once in a millisecond by each thread; in between the processor's own counter says how long
//! ago that was. A counter that is not what it was taken for is off by a millisecond at most, and then only until the
//! system is asked again.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use quanta::Clock as Counter;
use tollgate_core::Timestamp;

/// For so long the counter is relied on.
const SPAN_NS: u64 = 1_000_000;
/// A question to the system that took longer was interrupted, and nobody knows before or after the answer.
const SLOW_NS: u64 = 2_000;
/// Says which clock the kernel trusts.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

static COUNTER: OnceLock<Counter> = OnceLock::new();

thread_local! {
    static LAST: Cell<Reading> = const { Cell::new(Reading { counter: u64::MAX, time: 0 }) };
}

/// What the system said, and the counter just after it.
#[derive(Clone, Copy)]
struct Reading {
    counter: u64,
    time: u64,
}

/// Nanoseconds on a clock that never goes back and counts the time that the machine sleeps.
pub fn steady() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

/// The present. A clock set before 1970 reads as the epoch.
#[inline]
pub fn now() -> Timestamp {
    match COUNTER.get() {
        Some(counter) => Timestamp::from_nanos(counted(counter)),
        None => Timestamp::from_nanos(of_system()),
    }
}

/// From now on the processor's counter is made use of, if the kernel does so itself. It takes some milliseconds to find
/// out how fast it counts, so a server has it done beside its start.
pub fn count() {
    let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
    if source.trim() == "tsc" {
        COUNTER.get_or_init(Counter::new);
    }
}

#[inline]
fn counted(counter: &Counter) -> u64 {
    let last = LAST.get();
    let count = counter.raw();
    if count >= last.counter {
        let passed = counter.delta_as_nanos(last.counter, count);
        if passed < SPAN_NS {
            return last.time + passed;
        }
    }
    ask(counter)
}

/// Asks the system, and notes what it says with the counter's state just after: so the time that is told in the next
/// millisecond is rather behind than ahead.
#[cold]
fn ask(counter: &Counter) -> u64 {
    let before = counter.raw();
    let time = of_system();
    let after = counter.raw();
    if counter.delta_as_nanos(before, after) < SLOW_NS {
        LAST.set(Reading { counter: after, time });
    }
    time
}

#[expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]
fn of_system() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_tells_what_the_system_does() {
        count();
        let mut asked = 0;
        let mut last = LAST.get().counter;
        while asked < 20 {
            let before = of_system();
            let told = now().nanos();
            let after = of_system();
            // The system's clock may have been set meanwhile; it was not by much.
            assert!(
                told + SPAN_NS >= before && told <= after + SLOW_NS,
                "{before} {told} {after}"
            );
            asked += u32::from(COUNTER.get().is_none() || LAST.get().counter != last);
            last = LAST.get().counter;
        }
    }
}
