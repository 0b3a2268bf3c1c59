//! What befalls the fleet.

use std::rc::Rc;

use tollgate_core::Rule;
use tollgate_counters::shared::slot::NOTED_EVERY;

use crate::history::What;
use crate::policies::{Past, Policies};
use crate::scenario::{self, Happening};
use crate::world::{Event, MILLI, SECOND, World};

const MICROS_PER_SECOND: i64 = 1_000_000;

impl World {
    pub(crate) fn happen(&mut self) {
        let place = self.random.index(self.scenario.happenings.len());
        let happening = self.scenario.happenings[place];
        self.note(|_| format!("*** {happening:?}"));
        let before = self.shows(self.now);
        let server = self.random.index(self.store.servers.len());
        match happening {
            Happening::Crash => self.crash(),
            Happening::FailOver => {
                let lag = self.random.scaled(1, 300 * MILLI);
                let skew = self.store.servers[server].skew + self.step(2 * MICROS_PER_SECOND);
                if self.random.chance(500) {
                    let until = self.now + self.random.scaled(MILLI, 3 * SECOND);
                    let beside = self.random.below(1 << self.machines.len());
                    self.store.cut_off(server, until, beside);
                }
                self.store.fail_over(server, self.now, lag, skew);
                self.store.servers[server].stalled = self.now + self.random.scaled(MILLI, 200 * MILLI);
            }
            Happening::GoBack => self.go_back(server),
            Happening::Flush => self.store.flush(server),
            Happening::ClockStep => self.store.servers[server].skew += self.step(5 * MICROS_PER_SECOND),
            Happening::FarBack => {
                let far = self.random.within(11, 60).cast_signed();
                self.store.servers[server].skew -= far * MICROS_PER_SECOND;
            }
            Happening::Stall => {
                let length = self.random.scaled(MILLI, 3 * SECOND / 2);
                self.store.servers[server].stalled = self.now + length;
            }
            Happening::Migrate => {
                let home = self.random.index(self.store.homes.len());
                let until = self.now + self.random.scaled(MILLI, 20 * MILLI);
                self.store.migrate(home, server, until);
            }
            Happening::Revise => self.revise(),
        }
        let after = self.shows(self.now);
        for (home, (before, after)) in before.into_iter().zip(after).enumerate() {
            let what = if after > before {
                What::SetAhead
            } else if after < before && matches!(happening, Happening::ClockStep | Happening::Migrate) {
                What::SetBack
            } else if after < before {
                What::WentBack
            } else {
                continue;
            };
            let order = self.next_order();
            self.entry(order, after, home, None, what);
        }
    }

    /// A server forgets a while, if that is more than it may: what is lost with the last 10 ms can't be noticed.
    fn go_back(&mut self, server: usize) {
        let lag = self.random.scaled(20 * MILLI, 500 * MILLI);
        let of_server = |home: &usize| self.store.homes[*home].server == server;
        let homes = (0..self.store.homes.len()).filter(of_server);
        let is_noticed = |home: usize| {
            let heard = self.machines[0].heard.get(&home).map_or(0, |[_, heard]| *heard);
            heard == 0 || self.store.noted(home, self.now, lag) + NOTED_EVERY <= heard
        };
        if homes.into_iter().all(is_noticed) {
            self.store.go_back(server, self.now, lag);
        }
    }

    /// The one bucket there is becomes faster, or slow again. One node knows at once.
    pub(crate) fn raise(&mut self) {
        let mut list = self.policies.list.clone();
        let revision = self.policies.revision + 1;
        let rule = &mut list[0].rule;
        let faster = revision.is_multiple_of(2);
        let limit = if faster { rule.limit * 10 } else { rule.limit / 10 };
        *rule = Rule::new(rule.algorithm, limit, Some(rule.capacity), rule.window_ns);
        self.policies = Rc::new(Policies { revision, list });
        self.machines[1].policies = Rc::clone(&self.policies);
        let policies = Rc::clone(&self.policies);
        self.push(self.now + 300 * MILLI, Event::Publish(0, policies));
        self.spend_after_a_raise();
    }

    /// By how much a clock is set.
    fn step(&mut self, most: i64) -> i64 {
        let step = self.random.scaled(1, most.unsigned_abs()).cast_signed();
        if self.random.chance(500) { step } else { -step }
    }

    /// A node is killed, or told to stop and gives back what it holds.
    fn crash(&mut self) {
        let machine = self.random.index(self.machines.len());
        if !self.machines[machine].up {
            return;
        }
        let life = self.life(machine);
        let mut gone = self.now;
        if self.random.chance(500) {
            self.sweep(life, true);
            gone += self.random.scaled(1, 20 * MILLI);
        }
        self.push(gone, Event::Stop(life));
    }

    /// A limit is changed, and nodes learn of it one after the other.
    fn revise(&mut self) {
        let mut list = self.policies.list.clone();
        let place = self.random.index(list.len());
        let policy = &mut list[place];
        let Rule {
            algorithm,
            limit,
            capacity,
            window_ns,
            ..
        } = policy.rule;
        if self.random.chance(250) {
            let (algorithm, window_ns) = scenario::algorithm(&mut self.random);
            let rule = scenario::rule(&mut self.random, algorithm, window_ns);
            // Nodes that have not heard of it yet go on with the old one.
            let matters = u64::try_from(policy.rule.horizon_ns()).unwrap_or(u64::MAX);
            policy.formers.retain(|past| self.now < past.until);
            policy.formers.push(Past {
                count: policy.count,
                scope: policy.scope,
                rule: std::mem::replace(&mut policy.rule, rule),
                left: self.now,
                until: self.now.saturating_add(matters).saturating_add(3 * SECOND),
            });
            policy.count = self.counts;
            self.counts += 1;
            policy.scope = self.random.weighted(&scenario::SCOPES);
            list.sort_by_key(|policy| policy.scope.rank());
        } else {
            let (times, by) = self.random.pick(&[(10, 1), (2, 1), (1, 2), (1, 10)]);
            let changed = |number: u64| (number * times / by).clamp(1, 2_000);
            let (mut limit, mut burst) = (limit, capacity);
            match self.random.below(3) {
                0 => limit = changed(limit),
                1 => burst = changed(burst),
                _ => (limit, burst) = (changed(limit), changed(burst)),
            }
            policy.rule = Rule::new(algorithm, limit, Some(burst), window_ns);
        }
        let revision = self.policies.revision + 1;
        self.policies = Rc::new(Policies { revision, list });
        self.note(|world| format!("{:#?}", world.policies));
        for machine in 0..self.machines.len() {
            let mut after = self.random.scaled(1, 2 * SECOND);
            if machine == 0 && self.scenario.stale {
                after += self.random.scaled(SECOND, 30 * SECOND);
            }
            let policies = Rc::clone(&self.policies);
            self.push(self.now + after, Event::Publish(machine, policies));
        }
    }
}
