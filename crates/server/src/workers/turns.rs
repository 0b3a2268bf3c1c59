//! Turns: who has much to decide lets others of the thread come first.
//!
//! A connection decides some of what it has at once. For more it has to wait at the lane, which lets one connection
//! pass at a time, and the next only when all that was ready has run and sockets were looked at again. A single check is
//! thus never behind more than one turn of the others' work, however many send batches or long pipelines.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Steps of a turn. Deciding a check is one, reading an item of a batch another.
pub const STEPS: u32 = 64;

/// What the connections of a thread pass one after the other.
#[derive(Debug)]
pub(super) struct Lane {
    open: Semaphore,
    passed: Notify,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            open: Semaphore::new(1),
            passed: Notify::new(),
        }
    }
}

impl Lane {
    /// Opens the lane again after each that has passed.
    pub(super) async fn keep(&self) {
        loop {
            self.passed.notified().await;
            yield_now().await;
            self.open.add_permits(1);
        }
    }

    async fn pass(&self) {
        // Only a closed one fails, and nobody closes it.
        if let Ok(permit) = self.open.acquire().await {
            permit.forget();
        }
        self.passed.notify_one();
    }
}

/// A connection's turn.
#[derive(Debug)]
pub struct Turns {
    lane: Rc<Lane>,
    /// Steps that it may still go.
    left: Cell<u32>,
}

impl Turns {
    pub(super) fn at(lane: Rc<Lane>) -> Self {
        let left = Cell::new(STEPS);
        Self { lane, left }
    }

    /// Everything that had arrived is answered: what comes next is a new beginning.
    pub fn renew(&self) {
        self.left.set(STEPS);
    }

    /// Goes some steps.
    pub fn spend(&self, steps: u32) {
        self.left.set(self.left.get().saturating_sub(steps));
    }

    /// True if the turn is over.
    pub fn is_over(&self) -> bool {
        self.left.get() == 0
    }

    /// Waits for the next turn.
    pub async fn next(&self) {
        self.lane.pass().await;
        self.left.set(STEPS);
    }

    /// Goes so many steps, of a turn's at most, in the next turn if this one has too few left.
    pub async fn take(&self, steps: usize) {
        let steps = u32::try_from(steps).unwrap_or(STEPS).min(STEPS);
        if self.left.get() < steps {
            self.next().await;
        }
        self.spend(steps);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    #[tokio::test]
    async fn between_two_turns_of_a_long_one_everybody_else_runs() {
        let lane = Rc::new(Lane::default());
        let seen = Rc::new(RefCell::new(Vec::new()));
        let tasks = LocalSet::new();
        let keeper = lane.clone();
        tasks.spawn_local(async move { keeper.keep().await });
        let long = |name| {
            let (turns, seen) = (Turns::at(lane.clone()), seen.clone());
            turns.spend(STEPS);
            async move {
                for _ in 0..3 {
                    turns.take(STEPS as usize).await;
                    seen.borrow_mut().push(name);
                }
            }
        };
        let (first, second) = (long("first"), long("second"));
        let short = seen.clone();
        tasks
            .run_until(async move {
                let first = spawn_local(first);
                let second = spawn_local(second);
                let short = spawn_local(async move {
                    for _ in 0..6 {
                        yield_now().await;
                        short.borrow_mut().push("short");
                    }
                });
                for task in [first, second, short] {
                    task.await.unwrap();
                }
            })
            .await;
        let seen = seen.borrow();
        let neighbours = seen
            .windows(2)
            .filter(|pair| pair.iter().all(|who| *who != "short"));
        assert_eq!(neighbours.count(), 0, "{seen:?}");
    }

    #[tokio::test]
    async fn a_short_one_waits_for_nobody() {
        let turns = Turns::at(Rc::new(Lane::default()));
        // Nobody opens this lane again.
        turns.next().await;
        for _ in 0..STEPS {
            assert!(!turns.is_over());
            turns.take(1).await;
        }
        assert!(turns.is_over());
        turns.renew();
        turns.take(1).await;
    }
}
