//! The locks of this crate: real ones, or with the `shuttle` feature ones whose schedules a test explores.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::MutexGuard;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A mutex for critical sections far shorter than putting a thread to sleep takes.
///
/// A waiter that has to wait again and again stays away longer each time. Handing the lock over moves every
/// cell of the stack from one core's cache to the other's, which takes longer than the decision; while the
/// waiter stays away, the holder decides many stacks with warm caches, and two threads on one org get nearly
/// as much done as one alone. A waiter that is rarely held up tries again within half a microsecond.
#[cfg(not(feature = "shuttle"))]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

#[cfg(not(feature = "shuttle"))]
mod patience {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// Pauses of a processor between two tries, at first and at most: about 0.4 and 100 microseconds.
    pub(super) const LEAST: u32 = 8;
    const MOST: u32 = 2048;
    /// Waits closer together than this are one spell of contention.
    const SPELL: Duration = Duration::from_millis(2);

    thread_local! {
        static LAST: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
    }

    /// How long to stay away, by how lately this thread had to wait before.
    pub(super) fn pauses() -> u32 {
        let now = Instant::now();
        let pauses = match LAST.get() {
            Some((last, pauses)) if now.duration_since(last) < SPELL => (pauses * 2).min(MOST),
            _ => LEAST,
        };
        LAST.set(Some((now, pauses)));
        pauses
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
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        let mut pauses = patience::pauses();
        for _ in 0..Self::TRIES {
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
            // Having stayed away once, it takes the next gap.
            pauses = patience::LEAST;
        }
        self.0.lock()
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
}
