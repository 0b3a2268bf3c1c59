//! A node whose calls go to a slot as soon as they are made, or when a test says so.

use std::cell::Cell;
use std::slice::from_ref;
use std::sync::Arc;

use tollgate_core::{Algorithm, Calendar, CounterKey, Decision, Former, KeySeed, Level, Mode, Rule};
use tollgate_counters::shared::call::{Call, Micros, Name, Reply, instant};
use tollgate_counters::shared::node::{
    Answer, Asked, Claim, Details, Fail, Fallback, Mono, Node, Outgoing, Step, Waiter,
};
use tollgate_counters::shared::slot::Slot;
use tollgate_counters::{Commit, MemoryStore};

pub const SECOND: Micros = 1_000_000;
/// What the store's clock shows when a node's shows 0.
pub const START: Micros = 1_700_000_000 * SECOND;
const SERVER: u64 = 1;

/// A limit on a counter of an org, or of a slot of its own.
#[derive(Debug, Clone)]
pub struct Limit {
    pub counter: u8,
    pub home: u64,
    pub rule: Rule,
    pub accuracy: u16,
}

impl Limit {
    pub fn new(counter: u8, algorithm: Algorithm, limit: u64, burst: u64) -> Self {
        Self {
            counter,
            home: 1 << 56,
            rule: Rule::new(algorithm, limit, Some(burst), 1_000_000_000),
            accuracy: 0,
        }
    }

    /// As the level of a request that costs 1.
    fn level(&self) -> Level<'_> {
        Level {
            rule: &self.rule,
            calendar: Calendar::utc(),
            mode: Mode::Enforce,
            cost: 1,
            key: self.key(),
            home: self.home,
        }
    }

    /// As one that was left for another.
    fn former(&self, left: Micros) -> Former<'_> {
        Former {
            level: 0,
            rule: &self.rule,
            calendar: Calendar::utc(),
            key: self.key(),
            home: self.home,
            left: instant(START + left),
            goes_on: false,
            whole: true,
        }
    }

    fn key(&self) -> CounterKey {
        CounterKey::new(KeySeed::new(1, 2).id(&[self.counter]))
    }
}

/// Limits, and the counters that they replace.
struct Stack<'a>(&'a [Limit], &'a [Limit]);

impl Details for Stack<'_> {
    fn name(&self, place: usize) -> Name {
        Name([self.0[place].counter; 16])
    }

    fn tag(&self, place: usize) -> Arc<str> {
        self.0[place].home.to_string().into()
    }

    fn accuracy(&self, place: usize) -> u16 {
        self.0[place].accuracy
    }

    fn former(&self, place: usize) -> Name {
        Name([self.1[place].counter; 16])
    }
}

/// Somebody who waits for as long as it takes.
#[derive(Debug)]
pub struct Patient;

impl Waiter for Patient {
    fn is_gone(&self) -> bool {
        false
    }
}

/// A node and the store's slots, at an instant.
pub struct Fleet {
    pub node: Node<Patient>,
    pub slot: Slot,
    pub now: Micros,
    /// Whether the last request that was decided without the store was let through.
    pub allowed: Cell<bool>,
}

impl Fleet {
    pub fn new() -> Self {
        let node = Node::new(7, 1_000);
        node.set_clock(START, 0);
        Self {
            node,
            slot: Slot::installed(SERVER),
            now: 0,
            allowed: Cell::new(false),
        }
    }

    pub fn clock(&self) -> Mono {
        self.now * 1_000
    }

    /// One request that costs 1 at each of its limits.
    pub fn ask(&self, limits: &[Limit], revision: u64) -> Step {
        self.ask_of(limits, &[], revision)
    }

    /// The same, where the first limit is in place of others.
    pub fn ask_of(&self, limits: &[Limit], replaced: &[Limit], revision: u64) -> Step {
        let levels: Vec<Level<'_>> = limits.iter().map(Limit::level).collect();
        let formers: Vec<Former<'_>> = replaced.iter().map(|limit| limit.former(0)).collect();
        let asked = Asked {
            levels: &levels,
            formers: &formers,
            revision,
            commit: Commit::Charge,
            refused: false,
            charges: None,
            details: &Stack(limits, replaced),
        };
        let mut decision = Decision::pending();
        let step = self.node.decide(
            &asked,
            Claim::default(),
            &mut || self.clock(),
            &mut || Patient,
            &mut decision,
        );
        self.allowed.set(decision.allowed);
        step.unwrap()
    }

    /// One request for a limit in place of another, which is decided without the store.
    pub fn do_without(&self, limit: &Limit, replaced: &Limit, left: Micros, revision: u64) -> bool {
        let former = replaced.former(left);
        let asked = Asked {
            levels: &[limit.level()],
            formers: &[former],
            revision,
            commit: Commit::Charge,
            refused: false,
            charges: None,
            details: &Stack(from_ref(limit), from_ref(replaced)),
        };
        let (local, mut decision) = (MemoryStore::new(100), Decision::pending());
        let mut clock = || self.clock();
        let fallback = self
            .node
            .decide_away(&asked, &|_| Fail::Open, &local, &mut clock, &mut decision);
        assert!(matches!(fallback, Ok(Fallback::Decided { .. })));
        decision.allowed
    }

    /// Gives so much back to a limit's counter.
    pub fn give_back(&self, limit: &Limit, amount: u64) {
        let level = Level {
            cost: amount,
            ..limit.level()
        };
        self.node.give_back(&[level], self.clock());
    }

    /// The next call to a home.
    pub fn call(&self, home: u64) -> Option<Outgoing> {
        self.node.call(home, self.clock()).0
    }

    /// Runs a call of somebody else.
    pub fn carry_out(&mut self, call: &Call) -> Reply {
        self.slot.run(SERVER, START + self.now, call)
    }

    /// Has the node hear what became of a call.
    pub fn hear(&self, outgoing: &Outgoing, reply: Option<&Reply>) {
        self.node
            .heard(outgoing.home, outgoing.number, reply, self.clock());
    }

    /// Runs a call. Says how those who waited were decided: for each, whether each of its levels had room.
    pub fn run(&mut self, outgoing: &Outgoing) -> Vec<Vec<bool>> {
        let reply = self.carry_out(&outgoing.call);
        let told = self
            .node
            .heard(outgoing.home, outgoing.number, Some(&reply), self.clock());
        let decided = |answer| match answer {
            Answer::Decided(settled) => Some(settled.levels.iter().map(|(fits, ..)| *fits).collect()),
            _ => None,
        };
        told.into_iter()
            .filter_map(|(_, answer)| decided(answer))
            .collect()
    }
}
