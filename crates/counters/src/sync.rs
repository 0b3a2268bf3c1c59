//! The locks of this crate: real ones, or with the `shuttle` feature ones whose schedules a test explores.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::MutexGuard;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A mutex for critical sections far shorter than putting a thread to sleep takes.
#[cfg(not(feature = "shuttle"))]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

#[cfg(not(feature = "shuttle"))]
impl<T> Mutex<T> {
    /// Pauses before the second try, and at most between two. A waiter that stays away for a while lets the
    /// holder decide several stacks with warm caches; handing the lock over for each would cost more than
    /// the decision itself.
    const FIRST_PAUSES: u32 = 256;
    const MOST_PAUSES: u32 = 1024;
    /// Tries before the waiter goes to sleep after all: the holder has been taken off its core.
    const TRIES: u32 = 64;

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
        let mut pauses = Self::FIRST_PAUSES;
        for _ in 0..Self::TRIES {
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
            pauses = (pauses * 2).min(Self::MOST_PAUSES);
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
