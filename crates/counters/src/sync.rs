//! The locks of this crate: real ones, or with the `shuttle` feature ones whose schedules a test explores.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::MutexGuard;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A mutex for critical sections far shorter than putting a thread to sleep takes.
///
/// Handing the lock over moves the org's cells from one core's cache to the other's, which takes longer than a
/// decision. A thread that does little else than decide therefore stays away longer each time it has to wait:
/// meanwhile the holder decides many stacks with warm caches, and both together get as much done as one alone.
/// A thread with other work between its decisions tries again at once, and works beside the holder.
#[cfg(not(feature = "shuttle"))]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

#[cfg(not(feature = "shuttle"))]
mod patience {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// Pauses of a processor between two tries, at first and at most: about 0.1 and 200 microseconds.
    pub(super) const LEAST: u32 = 8;
    const MOST: u32 = 16384;
    /// With less time than this from one decision to the next, handing the lock over costs more than it gains.
    const BUSY: Duration = Duration::from_nanos(400);
    /// How many decisions a judgement takes: one alone may just have met cold caches or an interrupt.
    const SAMPLE: u32 = 32;

    thread_local! {
        static TAKEN: Cell<u32> = const { Cell::new(0) };
        static PACE: Cell<Option<Pace>> = const { Cell::new(None) };
    }

    /// What a thread knows of its own speed, waits left out.
    #[derive(Clone, Copy)]
    struct Pace {
        since: Instant,
        worked: Duration,
        pauses: u32,
    }

    /// Counts a lock that was taken.
    #[inline]
    pub(super) fn taken() {
        TAKEN.set(TAKEN.get().wrapping_add(1));
    }

    /// How long to stay away, by how fast this thread took locks when it did not have to wait.
    pub(super) fn pauses() -> u32 {
        let now = Instant::now();
        let mut pace = PACE.get().unwrap_or(Pace {
            since: now,
            worked: Duration::ZERO,
            pauses: LEAST,
        });
        pace.worked += now.duration_since(pace.since);
        let taken = TAKEN.get();
        if taken >= SAMPLE {
            let busy = pace.worked < BUSY * taken;
            pace.pauses = if busy { (pace.pauses * 2).min(MOST) } else { LEAST };
            pace.worked = Duration::ZERO;
            TAKEN.set(0);
        }
        PACE.set(Some(pace));
        pace.pauses
    }

    /// Ends a wait: from here on the thread's own speed is measured.
    pub(super) fn waited() {
        if let Some(pace) = PACE.get() {
            let since = Instant::now();
            PACE.set(Some(Pace { since, ..pace }));
        }
    }
}

#[cfg(not(feature = "shuttle"))]
impl<T> Mutex<T> {
    /// Tries before the waiter goes to sleep after all: the holder has been taken off its core.
    const TRIES: u32 = 16;

    pub(crate) fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        patience::taken();
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// The lock, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        let mut pauses = patience::pauses();
        for _ in 0..Self::TRIES {
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            if let Some(guard) = self.0.try_lock() {
                patience::waited();
                return guard;
            }
            // Having stayed away once, it takes the next gap.
            pauses = patience::LEAST;
        }
        let guard = self.0.lock();
        patience::waited();
        guard
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Shuttle's mutex with the interface of the real one.
#[cfg(feature = "shuttle")]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    #[expect(
        clippy::unwrap_used,
        reason = "a poisoned lock means the explored test has failed already"
    )]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
