//! Calls under way: sent, lost, run, answered, heard.

use std::rc::Rc;

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{Call, Done, Reply};
use tollgate_counters::shared::node::{Answer, Settled};

use crate::history::{Lack, Numbers, What};
use crate::machine::Ticket;
use crate::plant::Plant;
use crate::policies::{home_id, numbered};
use crate::world::{Event, Life, MILLI, SECOND, World};

/// How long a connection is waited on before it is given up.
const TIMEOUT: u64 = SECOND;
/// How often a call that did not run is sent again.
const MOST_TRIES: u32 = 3;
/// A call has fewer parts.
pub(crate) const MOST_PARTS: u64 = 64;

/// A call under way.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    life: Life,
    home: usize,
    number: u64,
    call: Rc<Call>,
    tries: u32,
    /// The server that it was sent to.
    owner: u64,
    /// The network made it. Nobody hears what becomes of it.
    copy: bool,
    /// What fallbacks let through that it settles: of which counter, which ones and what they cost.
    settles: Vec<(usize, Vec<(u64, u64)>)>,
}

/// A reply, and when it was given.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) reply: Reply,
    pub(crate) at: u64,
    pub(crate) order: u64,
    /// What the clocks of all homes showed.
    pub(crate) shows: Vec<u64>,
}

impl World {
    /// Sends the next call of a home's line, if there is one.
    pub(crate) fn send(&mut self, life: Life, home: usize) {
        let machine = &self.machines[life.machine];
        let (outgoing, told) = machine.node.call(home_id(home), machine.clock.read(self.now));
        self.tell(told, None);
        let Some(outgoing) = outgoing else {
            return;
        };
        self.note(|_| {
            format!(
                "n{} sends {} to home {home}: {:?}",
                life.machine, outgoing.number, outgoing.call
            )
        });
        let pause = self.pause();
        let then = self.sleep(life, pause);
        let heard = self.machines[life.machine].heard.get(&home);
        let heard = heard.copied().unwrap_or_default();
        let settled = outgoing.call.settlements.iter();
        let settled = settled.map(|settlement| numbered(outgoing.call.subjects[settlement.subject].name));
        let settles =
            settled.map(|counter| (counter, self.owed.remove(&(life, counter)).unwrap_or_default()));
        let settles = settles.collect();
        let parcel = Box::new(Parcel {
            life,
            home,
            number: outgoing.number,
            call: Rc::new(Call {
                heard,
                ..outgoing.call
            }),
            tries: 0,
            owner: self.store.owner(home),
            copy: false,
            settles,
        });
        if self.random.chance(self.scenario.lost) {
            return self.lose(parcel, then);
        }
        if self.random.chance(self.scenario.doubled) {
            let delay = self.delay() * 2;
            let copy = Parcel {
                copy: true,
                ..(*parcel).clone()
            };
            self.push(then + delay, Event::Arrive(Box::new(copy)));
        }
        let delay = self.delay();
        self.push(then + delay, Event::Arrive(parcel));
    }

    /// Nobody will ever know what became of a call.
    fn lose(&mut self, mut parcel: Box<Parcel>, at: u64) {
        if self.options.plant == Some(Plant::SentAgain) && parcel.tries < MOST_TRIES {
            parcel.tries += 1;
            parcel.owner = self.store.owner(parcel.home);
            let at = at + 2 * self.delay();
            return self.push(at, Event::Arrive(parcel));
        }
        let heard = at + self.random.scaled(MILLI, TIMEOUT);
        self.push(heard, Event::Hear(parcel, None));
    }

    /// A call has reached its server.
    pub(crate) fn arrive(&mut self, mut parcel: Box<Parcel>) {
        let (node, call) = (parcel.life.machine, &parcel.call);
        if let Some(reply) = self.store.run_cut_off(node, parcel.home, self.now, call) {
            return self.leave_alone(parcel, reply);
        }
        let (moving, server) = {
            let home = &self.store.homes[parcel.home];
            (home.moving > self.now, home.server)
        };
        let stalled = self.store.servers[server].stalled;
        if stalled > self.now {
            return self.push(stalled, Event::Arrive(parcel));
        }
        let moved = self.store.owner(parcel.home) != parcel.owner;
        if parcel.copy && (moved || moving) {
            return;
        }
        if moved && !self.store.serves(parcel.owner) {
            // The server that it was sent to is gone.
            return self.lose(parcel, self.now);
        }
        if moved || moving {
            // It did not run, and may be sent again.
            parcel.tries += 1;
            parcel.owner = self.store.owner(parcel.home);
            let at = self.now + 2 * self.delay();
            if parcel.tries > MOST_TRIES {
                let heard = Rc::new(Heard {
                    reply: Reply::NotRun,
                    at: self.now,
                    order: self.next_order(),
                    shows: self.shows(self.now),
                });
                return self.push(at, Event::Hear(parcel, Some(heard)));
            }
            return self.push(at, Event::Arrive(parcel));
        }
        let reply = self.store.run(parcel.home, self.now, &parcel.call);
        self.tally.calls += 1;
        self.note(|_| format!("home {} runs {}: {reply:?}", parcel.home, parcel.number));
        let order = self.next_order();
        if let Reply::Done(done) = &reply {
            self.record(&parcel, done, order);
        }
        if parcel.copy {
            return;
        }
        if self.random.chance(self.scenario.lost) {
            return self.lose(parcel, self.now);
        }
        let heard = Rc::new(Heard {
            reply,
            at: self.now,
            order,
            shows: self.shows(self.now),
        });
        let delay = self.delay();
        self.push(self.now + delay, Event::Hear(parcel, Some(heard)));
    }

    /// A call was run by a server that nobody else reaches. No replica has seen it, so that its reply does not count.
    fn leave_alone(&mut self, parcel: Box<Parcel>, reply: Reply) {
        if parcel.copy {
            return;
        }
        self.note(|_| format!("home {}, cut off, runs {}: {reply:?}", parcel.home, parcel.number));
        if self.options.plant != Some(Plant::Unwitnessed) {
            return self.lose(parcel, self.now);
        }
        let heard = Rc::new(Heard {
            reply,
            at: self.now,
            order: self.next_order(),
            shows: self.shows(self.now),
        });
        let delay = self.delay();
        self.push(self.now + delay, Event::Hear(parcel, Some(heard)));
    }

    /// Writes down what a call has done.
    fn record(&mut self, parcel: &Parcel, done: &Done, order: u64) {
        let Parcel { call, home, .. } = parcel;
        let stamp = done.now * 1_000;
        if done.now > call.not_after {
            let broken = format!("call {} to home {home} was run after its time", parcel.number);
            self.history.broken.push((self.now, broken));
        }
        if self.begins(*home, done.began) {
            self.entry(order, done.began * 1_000, *home, None, What::Began);
        }
        let subjects = call.subjects.iter();
        let counters: Vec<usize> = subjects.map(|subject| numbered(subject.name)).collect();
        let mut whats = self.decided(parcel, done, &counters, order);
        for (want, grant) in call.wants.iter().zip(&done.grants) {
            if grant.amount > 0 && !want.is_soft() {
                self.tally.lent += grant.amount;
                let what = What::Lent {
                    amount: grant.amount,
                    hold: grant.hold * 1_000,
                    urgent: want.needed,
                };
                whats.push((MOST_PARTS - 1, counters[want.subject], what));
            }
        }
        // What others replace is told first.
        let is_replaced = |place: &usize| {
            let mut subjects = call.subjects.iter();
            subjects.any(|subject| subject.formers.contains(place))
        };
        let mut places: Vec<usize> = (0..counters.len()).collect();
        places.sort_by_key(|place| (!call.subjects[*place].formers.is_empty(), !is_replaced(place)));
        for place in places {
            let (subject, counter) = (&call.subjects[place], &counters[place]);
            let touched = whats.iter().any(|(_, of, _)| of == counter);
            if self.is_news(*counter, subject, touched, stamp) {
                let numbers = Numbers::in_terms(&subject.terms);
                self.entry(order, stamp, *home, Some(*counter), What::Told(numbers));
            }
            if !subject.formers.is_empty() {
                let named = subject.formers.iter().map(|place| counters[*place]).collect();
                self.entry(order, stamp, *home, Some(*counter), What::Named(named));
            }
            // So is what was charged to them of fallbacks.
            let is_it = |(part, of, _): &mut (u64, usize, What)| *part == 0 && of == counter;
            let settled: Vec<_> = whats.extract_if(.., is_it).collect();
            for (_, _, what) in settled {
                self.entry(order, stamp, *home, Some(*counter), what);
            }
        }
        for given in &call.returns {
            self.entry(order, stamp, *home, Some(counters[given.subject]), What::Returned);
        }
        for (part, counter, what) in whats {
            self.entry(order + part, stamp, *home, Some(counter), what);
        }
    }

    /// Writes down what was decided, and says what was charged: as which part of the call, to which counter.
    fn decided(&mut self, parcel: &Parcel, done: &Done, of: &[usize], order: u64) -> Vec<(u64, usize, What)> {
        let Parcel { call, home, life, .. } = parcel;
        let node = life.number * 64 + life.machine as u64;
        let mut whats = Vec::new();
        for settlement in &call.settlements {
            let (counter, cost) = (of[settlement.subject], settlement.owed + settlement.drained);
            let ids = self.settled(parcel, counter, cost);
            if !self.history.natures[&counter].soft {
                whats.push((0, counter, What::Settled { cost, ids }));
            }
        }
        for (place, (need, seen)) in call.needs.iter().zip(&done.verdicts).enumerate() {
            let both = || need.parts.iter().zip(seen);
            let allowed = both().all(|(part, seen)| seen.fits || part.mode != Mode::Enforce);
            let charges = allowed && need.commit == Commit::Charge;
            let mut once = Vec::new();
            for (part, seen) in both().filter(|(part, _)| part.mode != Mode::Soft) {
                let counter = of[part.subject];
                if !seen.fits {
                    let lack = Lack {
                        counter,
                        cost: part.cost,
                        by: Numbers {
                            limit: part.limit,
                            capacity: part.capacity,
                            ..Numbers::in_terms(&call.subjects[part.subject].terms)
                        },
                        stamp: done.now * 1_000,
                    };
                    let what = What::Denied {
                        local: false,
                        levels: vec![lack],
                    };
                    self.entry(order + 1 + place as u64, lack.stamp, *home, None, what);
                } else if charges && part.cost > 0 && !once.contains(&counter) {
                    once.push(counter);
                    // What the network runs twice is charged twice.
                    let number = parcel.number << 1 | u64::from(parcel.copy);
                    let id = (node, number, place);
                    whats.push((1 + place as u64, counter, What::Charged { cost: part.cost, id }));
                }
            }
        }
        whats
    }

    /// The store hears, once, what was let through without it. Says which ones it is: a node may have forgotten the first
    /// of them.
    fn settled(&mut self, parcel: &Parcel, counter: usize, cost: u64) -> Vec<u64> {
        if parcel.copy {
            return Vec::new();
        }
        let settles = parcel.settles.iter().find(|(of, _)| *of == counter);
        let all = settles.map_or(&[][..], |(_, all)| all);
        let (mut sum, mut ids) = (0, Vec::new());
        for (id, cost_of_one) in all.iter().rev() {
            if sum >= cost {
                break;
            }
            sum += cost_of_one;
            ids.push(*id);
        }
        if sum < cost {
            let broken =
                format!("counter {counter} was charged {cost} for {sum} that a fallback let through");
            self.history.broken.push((self.now, broken));
        }
        ids
    }

    /// A node hears of a call.
    pub(crate) fn hear(&mut self, parcel: &Parcel, heard: Option<&Heard>) {
        let (life, home) = (parcel.life, parcel.home);
        let reply = heard.map(|heard| &heard.reply);
        let machine = &mut self.machines[life.machine];
        if let Some(Reply::Done(done)) = reply {
            let heard = machine.heard.entry(home).or_default();
            let since = if heard[0] == done.began { heard[1] } else { 0 };
            *heard = [done.began, done.now.max(since)];
        }
        if let Some(Reply::Late { .. } | Reply::NotRun) = reply {
            // It is charged another time.
            for (counter, first) in &parcel.settles {
                let owed = self.owed.entry((life, *counter)).or_default();
                owed.splice(..0, first.iter().copied());
            }
        }
        let now = machine.clock.read(self.now);
        let told = machine.node.heard(home_id(home), parcel.number, reply, now);
        self.note(|_| {
            let what = if reply.is_some() { "" } else { ": nothing" };
            format!(
                "n{} hears of {} from home {home}{what}",
                life.machine, parcel.number
            )
        });
        self.tell(told, heard.map(|heard| (heard, home)));
        self.push(self.now, Event::Send(life, home));
    }

    /// Lets those who waited go on.
    fn tell(&mut self, told: Vec<(Ticket, Answer)>, heard: Option<(&Heard, usize)>) {
        for (place, (ticket, answer)) in told.into_iter().enumerate() {
            let number = ticket.request;
            if self.requests[number].over {
                continue;
            }
            match (answer, heard) {
                (Answer::Decided(Settled { levels, .. }), Some((heard, home))) => {
                    let levels = levels.iter();
                    let seen: Vec<_> = levels.map(|(fits, charged, _)| (*fits, *charged)).collect();
                    // Those who were decided come first, in their order.
                    self.conclude(number, &seen, heard, Some((home, 1 + place as u64)));
                }
                (Answer::Again(claim), _) => {
                    if let Some((heard, home)) = heard
                        && claim.is_of(home_id(home))
                    {
                        self.requests[number].note_lent(home, heard);
                    }
                    if let Some((_, home)) = heard {
                        self.put_back(number, home);
                    }
                    self.push(self.now, Event::Ask(number, claim));
                }
                _ => self.fall_back(number),
            }
        }
    }
}

impl Parcel {
    /// Whose call it is.
    pub(crate) fn life(&self) -> Life {
        self.life
    }
}
