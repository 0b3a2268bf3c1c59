//! Requests, and how nodes decide them.

mod fallback;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::{Calendar, Decision, Former, Level, Mode, Timestamp};
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{Name, Reply};
use tollgate_counters::shared::node::{Asked, Claim, Details, Step};

use crate::call::{Heard, MOST_PARTS};
use crate::history::{Entry, Lack, Nature, Numbers, Replaced, What};
use crate::machine::Ticket;
use crate::policies::{Caller, Place, Policies, Policy, counter, home_id, home_of};
use crate::world::{Event, Life, MILLI, World};

/// How long a client waits for its answer.
const PATIENCE: u64 = 300 * MILLI;
/// A request that is decided anew so many times is given up.
const MOST_TRIES: u32 = 50;

/// A level of a request.
#[derive(Debug)]
pub(crate) struct Placed {
    /// By its place in the list.
    policy: usize,
    counter: usize,
    place: Rc<Place>,
    /// Where those live that it replaces, by their places in its policy's list.
    formers: Vec<(usize, Rc<Place>)>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) life: Life,
    pub(crate) over: bool,
    pub(crate) gone: Rc<Cell<bool>>,
    costs: [u64; 2],
    commit: Commit,
    policies: Rc<Policies>,
    stack: Vec<Placed>,
    tries: u32,
    /// When the store lent it what it lacked of a home.
    lent: HashMap<usize, When>,
    /// The levels for which a fallback spoke.
    without: Vec<usize>,
    /// When a node last took what it holds for it, and what the clocks of all homes showed.
    took: (When, Vec<u64>),
}

/// When something was decided.
#[derive(Debug, Clone, Copy, Default)]
struct When {
    at: u64,
    order: u64,
    stamp: u64,
    local: bool,
}

impl Request {
    fn levels(&self) -> impl Iterator<Item = (&Placed, &Policy)> {
        let list = &self.policies.list;
        self.stack.iter().map(|placed| (placed, &list[placed.policy]))
    }

    fn stack(&self) -> Vec<Level<'_>> {
        self.levels()
            .map(|(placed, policy)| Level {
                rule: &policy.rule,
                calendar: Calendar::utc(),
                mode: policy.mode,
                cost: self.costs[policy.unit],
                key: placed.place.key,
                home: home_id(placed.place.home),
            })
            .collect()
    }

    fn formers(&self) -> Vec<Former<'_>> {
        let mut formers = Vec::new();
        for (level, (placed, policy)) in self.levels().enumerate() {
            for (past, former) in &placed.formers {
                let past = &policy.formers[*past];
                formers.push(Former {
                    level,
                    rule: &past.rule,
                    calendar: Calendar::utc(),
                    key: former.key,
                    home: home_id(former.home),
                    left: Timestamp::from_nanos(past.left),
                    goes_on: false,
                    whole: past.scope.is_no_narrower_than(policy.scope),
                });
            }
        }
        formers
    }

    /// Whether it goes through if its levels have room or not.
    pub(crate) fn passes(&self, fits: impl Iterator<Item = bool>) -> bool {
        let mut levels = self.levels().zip(fits);
        levels.all(|((_, policy), fits)| fits || policy.mode != Mode::Enforce)
    }
}

impl Request {
    /// When a level of a home was decided. It is when its token was taken: in the store, or out of a lease.
    fn decided(&self, home: usize, heard: &Heard, asked: Option<(usize, u64)>) -> When {
        let (took, shown) = &self.took;
        match (&heard.reply, asked, self.lent.get(&home)) {
            (_, _, Some(lent)) => *lent,
            (Reply::Done(done), Some((by, part)), None) if by == home => When {
                at: heard.at,
                order: heard.order + part,
                stamp: done.now * 1_000,
                local: false,
            },
            (_, Some(_), None) => When {
                stamp: shown[home],
                ..*took
            },
            (_, None, None) => When {
                at: heard.at,
                order: heard.order,
                stamp: heard.shows[home],
                local: true,
            },
        }
    }

    /// Notes that the store lent it something.
    pub(crate) fn note_lent(&mut self, home: usize, heard: &Heard) {
        if let Reply::Done(done) = &heard.reply {
            self.lent.entry(home).or_insert(When {
                at: heard.at,
                order: heard.order + MOST_PARTS - 1,
                stamp: done.now * 1_000,
                local: false,
            });
        }
    }
}

impl Details for Request {
    fn name(&self, place: usize) -> Name {
        self.stack[place].place.name
    }

    fn tag(&self, place: usize) -> Arc<str> {
        Arc::from(self.stack[place].place.home.to_string())
    }

    fn accuracy(&self, place: usize) -> u16 {
        self.policies.list[self.stack[place].policy].accuracy
    }

    fn former(&self, place: usize) -> Name {
        let mut formers = self.stack.iter().flat_map(|placed| &placed.formers);
        formers
            .nth(place)
            .map_or(Name([0; 16]), |(_, former)| former.name)
    }
}

impl World {
    /// Makes a request, to be decided at an instant.
    pub(crate) fn request(&mut self, at: u64, machine: usize, caller: Caller, costs: [u64; 2], dry: bool) {
        let policies = Rc::clone(&self.machines[machine].policies);
        let mut stack = Vec::new();
        for (place, policy) in policies.list.iter().enumerate() {
            if policy.applies(caller) {
                stack.push(self.place(&policies, place, caller));
            }
        }
        if stack.is_empty() {
            return;
        }
        self.grow();
        let number = self.requests.len();
        self.requests.push(Request {
            life: self.life(machine),
            costs,
            commit: if dry { Commit::DryRun } else { Commit::Charge },
            policies,
            stack,
            tries: 0,
            lent: HashMap::new(),
            without: Vec::new(),
            took: (When::default(), Vec::new()),
            over: false,
            gone: Rc::new(Cell::new(false)),
        });
        self.push(at, Event::Ask(number, Claim::default()));
        self.push(at + PATIENCE, Event::GiveUp(number));
    }

    fn place(&mut self, policies: &Policies, place: usize, caller: Caller) -> Placed {
        let policy = &policies.list[place];
        let number = counter(policy.count, policy.scope, caller);
        let mut formers = Vec::new();
        for (past, former) in policy.formers.iter().enumerate() {
            if self.now < former.until {
                let old = counter(former.count, former.scope, caller);
                formers.push((past, self.places.of(old, former.scope, caller.org)));
            }
        }
        let placed = Placed {
            policy: place,
            counter: number,
            place: self.places.of(number, policy.scope, caller.org),
            formers,
        };
        self.history.natures.entry(number).or_insert_with(|| Nature {
            algorithm: policy.rule.algorithm,
            window_ns: policy.rule.window_ns,
            accuracy: policy.accuracy,
            home: placed.place.home,
            soft: policy.mode == Mode::Soft,
            formers: (policy.formers.iter())
                .map(|past| Replaced {
                    counter: counter(past.count, past.scope, caller),
                    numbers: Numbers::of(&past.rule, policies.revision),
                    out_of_reach: past.scope.spans()
                        || policy.scope.spans()
                        || !past.scope.is_no_narrower_than(policy.scope),
                    left: past.left,
                    until: past.until,
                })
                .collect(),
        });
        placed
    }

    /// A node decides a request, or has it wait.
    pub(crate) fn ask(&mut self, number: usize, claim: Claim) {
        let pause = self.pause();
        self.requests[number].tries += 1;
        let request = &self.requests[number];
        if request.over || request.tries > MOST_TRIES {
            return;
        }
        let (levels, formers) = (request.stack(), request.formers());
        let asked = Asked {
            levels: &levels,
            formers: &formers,
            revision: request.policies.revision,
            commit: request.commit,
            refused: false,
            charges: None,
            details: request,
        };
        let machine = &self.machines[request.life.machine];
        let mut reads = 0;
        let mut clock = || {
            reads += 1;
            machine.clock.read(self.now + if reads == 1 { 0 } else { pause })
        };
        let mut waiter = || Ticket {
            request: number,
            gone: Rc::clone(&request.gone),
        };
        let mut decision = Decision::pending();
        let step = machine
            .node
            .decide(&asked, claim, &mut clock, &mut waiter, &mut decision);
        let life = request.life;
        let then = self.sleep(life, pause);
        match step {
            Ok(Step::Decided { low, .. }) => {
                self.conclude_locally(number, &decision, then);
                if let Some(home) = low {
                    self.push(then, Event::Send(life, home_of(home)));
                }
            }
            Ok(Step::Waits(home)) => {
                let home = home_of(home);
                let when = When {
                    at: then,
                    order: self.next_order(),
                    stamp: 0,
                    local: true,
                };
                self.requests[number].took = (when, self.shows(then));
                self.note(|_| format!("n{} request {number} waits for home {home}", life.machine));
                self.push(then, Event::Send(life, home));
            }
            Err(full) => self.history.broken.push((self.now, full.to_string())),
        }
    }

    /// A request that waited for a home puts back what it had in hand of others, since it is asked about anew or denied.
    pub(crate) fn put_back(&mut self, number: usize, waited_for: usize) {
        let request = &self.requests[number];
        let (took, shown) = &request.took;
        for (placed, policy) in request.levels() {
            let (home, cost) = (placed.place.home, request.costs[policy.unit]);
            let from_lease = policy.scope.spans() && home != waited_for && !request.lent.contains_key(&home);
            if from_lease && cost > 0 {
                self.history.entries.push(Entry {
                    at: took.at,
                    order: took.order,
                    stamp: shown[home],
                    home,
                    counter: Some(placed.counter),
                    what: What::InHand {
                        cost,
                        until: self.now,
                    },
                });
            }
        }
    }

    /// A node has decided from what it holds.
    fn conclude_locally(&mut self, number: usize, decision: &Decision, then: u64) {
        // A denial is as of before the pause: nothing was spent that could have ended in it.
        let at = if decision.allowed { then } else { self.now };
        let heard = Heard {
            reply: Reply::Late { now: 0 },
            at,
            order: self.next_order(),
            shows: self.shows(at),
        };
        let outcomes = decision.outcomes.iter();
        let seen: Vec<_> = outcomes.map(|outcome| (outcome.fits, outcome.charged)).collect();
        self.tally.local += u64::from(decision.allowed);
        self.conclude(number, &seen, &heard, None);
    }

    /// A request is decided: by the store as a part of a call to a home, else on the node.
    pub(crate) fn conclude(
        &mut self,
        number: usize,
        seen: &[(bool, bool)],
        heard: &Heard,
        asked: Option<(usize, u64)>,
    ) {
        self.requests[number].over = true;
        let request = &self.requests[number];
        let allowed = request.passes(seen.iter().map(|(fits, _)| *fits));
        let machine = request.life.machine;
        self.note(|_| format!("n{machine} request {number} allowed={allowed} {seen:?} asked={asked:?}"));
        if allowed {
            self.tally.allowed += 1;
        } else {
            self.tally.denied += 1;
            if let Some((home, _)) = asked {
                self.put_back(number, home);
            }
        }
        let (mut admitted, mut lacking) = (Vec::new(), Vec::new());
        let request = &self.requests[number];
        for (place, ((placed, policy), (fits, charged))) in request.levels().zip(seen).enumerate() {
            let (counter, home) = (placed.counter, placed.place.home);
            let cost = request.costs[policy.unit];
            if request.without.contains(&place) {
                // The store hears of it later.
                if allowed && *charged && request.commit == Commit::Charge {
                    let id = heard.order + place as u64;
                    let owed = self.owed.entry((request.life, counter)).or_default();
                    if owed
                        .iter()
                        .any(|(known, _)| *known / MOST_PARTS == id / MOST_PARTS)
                    {
                        // A count that several limits watch is charged once.
                        continue;
                    }
                    owed.push((id, cost));
                    self.history.entries.push(Entry {
                        at: heard.at,
                        order: id,
                        stamp: heard.shows[home],
                        home,
                        counter: Some(counter),
                        what: What::LetThrough { cost, id },
                    });
                }
                continue;
            }
            let when = request.decided(home, heard, asked);
            let charges = allowed && request.commit == Commit::Charge && cost > 0;
            if charges && !charged && (*fits || policy.mode != Mode::Shadow) {
                let broken = format!("request {number} went through without counter {counter}");
                self.history.broken.push((heard.at, broken));
            }
            if charges && *charged && policy.mode != Mode::Soft && !admitted.contains(&counter) {
                admitted.push(counter);
                self.history.entries.push(Entry {
                    at: when.at,
                    order: when.order,
                    stamp: when.stamp,
                    home,
                    counter: Some(counter),
                    what: What::Admitted {
                        cost,
                        local: when.local,
                        lent: request.lent.contains_key(&home),
                    },
                });
            }
            if !fits && policy.mode == Mode::Enforce && asked.is_none() {
                lacking.push(Lack {
                    counter,
                    cost,
                    by: Numbers::of(&policy.rule, request.policies.revision),
                    stamp: when.stamp,
                });
            }
        }
        if !lacking.is_empty() {
            self.history.entries.push(Entry {
                at: heard.at,
                order: heard.order,
                stamp: 0,
                home: 0,
                counter: None,
                what: What::Denied {
                    local: true,
                    levels: lacking,
                },
            });
        }
    }
}
