//! A node of the fleet: the real one, with a clock, policies and a life that can end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tollgate_counters::MemoryStore;
use tollgate_counters::shared::call::Micros;
use tollgate_counters::shared::node::{Node, Waiter};

use crate::clock::Clock;
use crate::policies::Policies;

/// Who waits for an answer.
#[derive(Debug)]
pub struct Ticket {
    /// Which request.
    pub request: usize,
    /// Set when nobody waits for it any more.
    pub gone: Rc<Cell<bool>>,
}

impl Waiter for Ticket {
    fn is_gone(&self) -> bool {
        self.gone.get()
    }
}

/// A node.
pub struct Machine {
    /// What it runs.
    pub node: Node<Ticket>,
    /// What it counts by itself while the store is away.
    pub local: MemoryStore,
    /// Its clock.
    pub clock: Clock,
    /// The policies that it knows.
    pub policies: Rc<Policies>,
    /// Which of its lives it is. What was meant for an earlier one is lost.
    pub life: u64,
    /// Whether it runs.
    pub up: bool,
    /// It sleeps until then.
    pub asleep: u64,
    /// What it last heard of each home: when what that knows began, and the time it showed.
    pub heard: BTreeMap<usize, [Micros; 2]>,
}
