//! Requests: spells of idling, of exactly the lengths that matter, and of spending everything at once.

use tollgate_core::{Algorithm, Rule};

use crate::policies::{Caller, Policy};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{Event, MILLI, SECOND, World};

/// What is still to come.
#[derive(Debug)]
pub(crate) struct Traffic {
    left: u64,
    /// Most requests are this caller's.
    favourite: Caller,
}

impl Traffic {
    pub(crate) fn new(random: &mut Random, scenario: &Scenario) -> Self {
        Self {
            left: scenario.requests,
            favourite: caller(random, scenario.orgs),
        }
    }
}

fn caller(random: &mut Random, orgs: usize) -> Caller {
    Caller {
        org: random.index(orgs),
        app: random.index(2),
        ip: random.index(2),
        endpoint: u8::from(random.chance(500)),
    }
}

/// How long a lease of such a limit may be held.
fn hold(policy: &Policy) -> u64 {
    let Rule {
        algorithm,
        limit,
        capacity,
        window_ns,
        ..
    } = policy.rule;
    let part = |whole: u128| whole * u128::from(policy.accuracy) / 10_000;
    let hold = match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            part(u128::from(capacity) * u128::from(window_ns)) / (2 * u128::from(limit.max(1)))
        }
        Algorithm::SlidingLog => part(window_ns.into()) / 2,
        _ => SECOND.into(),
    };
    u64::try_from(hold).unwrap_or(SECOND).min(SECOND)
}

impl World {
    /// The next spell.
    pub(crate) fn make_requests(&mut self) {
        if self.traffic.left == 0 {
            return self.end_soon();
        }
        if self.scenario.raises {
            return self.borrow_before_a_raise();
        }
        let policies = std::rc::Rc::clone(&self.policies);
        let place = self.random.index(policies.list.len());
        let policy = &policies.list[place];
        let length = match self.random.below(4) {
            0 => self.idle(policy),
            1 => self.burst(policy),
            2 => {
                let wait = self.window_end(policy);
                self.push(self.now + wait, Event::Traffic);
                return;
            }
            _ => self.flow(policy),
        };
        self.push(self.now + length, Event::Traffic);
    }

    /// A node borrows, and then the bucket becomes faster.
    fn borrow_before_a_raise(&mut self) {
        let flow = self.policies.list[0].rule.capacity / 3;
        for number in 0..flow {
            self.ask_for_one(self.now + number * 2 * MILLI, 0);
        }
        self.traffic.left = self.traffic.left.saturating_sub(flow);
        self.push(self.now + flow * 2 * MILLI, Event::Raise);
    }

    /// Another node tells the store that it is faster, and the bucket is full again as soon as it can be. What the one
    /// holds and what the other is given are spent at once.
    pub(crate) fn spend_after_a_raise(&mut self) {
        let Rule {
            limit,
            capacity,
            window_ns,
            ..
        } = self.policies.list[0].rule;
        self.ask_for_one(self.now, 1);
        let full = self.now + MILLI + window_ns * capacity / limit.max(1);
        for number in 0..capacity + 50 {
            self.ask_for_one(full, usize::from(number < capacity));
        }
        self.traffic.left = self.traffic.left.saturating_sub(capacity + 51);
        self.push(full + 1_500 * MILLI, Event::Traffic);
    }

    fn ask_for_one(&mut self, at: u64, machine: usize) {
        let favourite = self.traffic.favourite;
        self.request(at, machine, favourite, [1, 0], false);
    }

    /// Nothing comes for as long as something takes.
    fn idle(&mut self, policy: &Policy) -> u64 {
        let Rule {
            limit,
            capacity,
            window_ns,
            ..
        } = policy.rule;
        let hold = hold(policy);
        let window = window_ns.min(2 * SECOND);
        let refill = u128::from(capacity) * u128::from(window) / u128::from(limit.max(1));
        let refill = u64::try_from(refill).unwrap_or(window);
        let length = self.random.pick(&[
            hold,
            window.saturating_sub(hold),
            window,
            refill,
            refill.saturating_sub(hold),
            window / 2,
        ]);
        let little = self.random.pick(&[0, 0, 1_000, 100_000, MILLI]);
        if self.random.chance(500) {
            length + little
        } else {
            length.saturating_sub(little)
        }
        .min(3 * SECOND)
    }

    /// As much as there is, all at once.
    fn burst(&mut self, policy: &Policy) -> u64 {
        let most = policy.rule.limit.max(policy.rule.capacity);
        let count = self.random.scaled(most / 2 + 1, most * 3 / 2 + 2).min(300);
        let apart = self.random.pick(&[0, 0, 1_000, 10_000]);
        self.spread(count, apart)
    }

    /// An even flow, slower or faster than the limit.
    fn flow(&mut self, policy: &Policy) -> u64 {
        let rate = policy.rule.limit.max(1) * self.random.pick(&[1, 2, 10, 20]);
        let window = policy.rule.window_ns.min(2 * SECOND);
        let apart = (window / rate * self.random.pick(&[1, 2, 5])).clamp(5_000, 20 * MILLI);
        let count = self.random.within(20, 200);
        self.spread(count, apart)
    }

    /// The time to just before the window's end, or just after.
    fn window_end(&mut self, policy: &Policy) -> u64 {
        let window = policy.rule.window_ns;
        let ahead = window - self.store.shows(0, self.now) % window;
        let little = self.random.pick(&[0, 1_000, 200_000, 2 * MILLI, 20 * MILLI]);
        if ahead > 4 * SECOND {
            little
        } else if self.random.chance(500) {
            ahead + little
        } else {
            ahead.saturating_sub(little)
        }
    }

    fn spread(&mut self, count: u64, apart: u64) -> u64 {
        let count = count.min(self.traffic.left);
        self.traffic.left -= count;
        let nodes = self.machines.len();
        let one = self.random.index(nodes);
        let alone = self.random.chance(400);
        let favoured = self.random.chance(750);
        for number in 0..count {
            let machine = if alone { one } else { self.random.index(nodes) };
            let caller = if favoured {
                self.traffic.favourite
            } else {
                caller(&mut self.random, self.scenario.orgs)
            };
            let cost = self.cost();
            let other = if self.random.chance(300) { self.cost() } else { 0 };
            let dry = self.random.chance(20);
            self.request(self.now + number * apart, machine, caller, [cost, other], dry);
        }
        count * apart
    }

    fn cost(&mut self) -> u64 {
        match self.random.below(40) {
            0 => 0,
            1 => self.random.within(2, 10),
            2 => self.random.scaled(1, 500),
            _ => 1,
        }
    }
}
