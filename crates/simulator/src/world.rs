//! A run: events in the order of true time, until there are no more requests.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::rc::Rc;

use tollgate_counters::MemoryStore;
use tollgate_counters::shared::call::{Kind, Subject};
use tollgate_counters::shared::node::{Claim, Node};

use crate::Options;
use crate::call::{Heard, MOST_PARTS, Parcel};
use crate::clock::Clock;
use crate::counts::Counts;
use crate::history::{Entry, History, What};
use crate::machine::Machine;
use crate::plant::Plant;
use crate::policies::{Places, Policies, home_of};
use crate::queue::Queued;
use crate::random::Random;
use crate::request::Request;
use crate::scenario::Scenario;
use crate::store::Store;
use crate::traffic::Traffic;

const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000 * MICRO;
pub(crate) const SECOND: u64 = 1_000 * MILLI;
/// How long a run goes on after its last request.
const REST: u64 = 2 * SECOND;

/// What happens next.
#[derive(Debug)]
pub(crate) enum Event {
    /// More requests are made.
    Traffic,
    /// A request is to be decided.
    Ask(usize, Claim),
    /// A node looks whether there is something to ask of a home.
    Send(Life, usize),
    /// A call reaches its server.
    Arrive(Box<Parcel>),
    /// A node hears what became of a call.
    Hear(Box<Parcel>, Option<Rc<Heard>>),
    /// A client has waited long enough.
    GiveUp(usize),
    /// A node looks after what it holds.
    Sweep(Life),
    /// A node learns of a revision.
    Publish(usize, Rc<Policies>),
    /// Something befalls the fleet.
    Happen,
    /// A bucket becomes faster or slower.
    Raise,
    /// A node starts.
    Start(usize),
    /// A node dies.
    Stop(Life),
}

/// How an event finds whom it is for.
enum Recipient {
    Awake,
    Asleep(u64),
    Dead,
}

/// A node in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Life {
    pub(crate) machine: usize,
    pub(crate) number: u64,
}

/// A world.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) scenario: Scenario,
    pub(crate) machines: Vec<Machine>,
    pub(crate) store: Store,
    /// The latest.
    pub(crate) policies: Rc<Policies>,
    pub(crate) places: Places,
    pub(crate) traffic: Traffic,
    pub(crate) requests: Vec<Request>,
    /// How many counts there were, with those that were replaced.
    pub(crate) counts: usize,
    pub(crate) history: History,
    pub(crate) tally: Counts,
    queue: BinaryHeap<Queued<Event>>,
    order: u64,
    /// The generation of each home.
    began: Vec<u64>,
    /// How often a copy had taken a server's place by then.
    failovers: Vec<u64>,
    /// The newest revision by which the store counts.
    told: HashMap<usize, u64>,
    /// What nodes let through while the store was away, and have not told it yet.
    pub(crate) owed: HashMap<(Life, usize), Vec<(u64, u64)>>,
    /// Until when windows that begin with their first request are open.
    open: HashMap<usize, u64>,
    pub(crate) options: Options,
    end: u64,
}

impl World {
    /// The world of a seed.
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let bug = match options.plant {
            Some(Plant::Store(bug)) => Some(bug),
            _ => None,
        };
        let mut random = Random::new(seed);
        let scenario = Scenario::new(&mut random);
        let policies = Rc::new(scenario.policies.clone());
        let mut world = Self {
            now: scenario.start,
            traffic: Traffic::new(&mut random, &scenario),
            random,
            store: Store::new(scenario.servers, bug),
            machines: Vec::new(),
            counts: policies.list.len(),
            policies,
            places: Places::new(scenario.orgs),
            requests: Vec::new(),
            history: History::default(),
            tally: Counts::default(),
            queue: BinaryHeap::new(),
            order: 0,
            began: Vec::new(),
            failovers: Vec::new(),
            told: HashMap::new(),
            owed: HashMap::new(),
            open: HashMap::new(),
            options,
            end: u64::MAX,
            scenario,
        };
        world.note(|world| format!("{:#?}", world.scenario));
        world.grow();
        for machine in 0..world.scenario.nodes {
            world.start(machine);
        }
        world.push(world.now, Event::Traffic);
        if !world.scenario.happenings.is_empty() {
            world.push(world.now + world.scenario.every, Event::Happen);
        }
        world
    }

    /// Runs until all requests were made and everything has come to rest.
    pub(crate) fn run(&mut self) {
        while let Some(next) = self.queue.pop() {
            if next.at > self.end {
                break;
            }
            self.now = next.at;
            self.handle(next.event);
        }
    }

    /// No more requests come.
    pub(crate) fn end_soon(&mut self) {
        self.end = self.now + REST;
    }

    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.push(Queued {
            at,
            order: self.order,
            event,
        });
    }

    pub(crate) fn note(&self, line: impl FnOnce(&Self) -> String) {
        if self.options.trace {
            let since = self.now - self.scenario.start;
            println!(
                "{:4}.{:06} {}",
                since / SECOND,
                since % SECOND / 1_000,
                line(self)
            );
        }
    }

    fn handle(&mut self, event: Event) {
        match self.recipient(&event) {
            Recipient::Awake => {}
            Recipient::Asleep(until) => return self.push(until, event),
            Recipient::Dead => return,
        }
        match event {
            Event::Traffic => self.make_requests(),
            Event::Ask(request, claim) => self.ask(request, claim),
            Event::Send(life, home) => self.send(life, home),
            Event::Arrive(parcel) => self.arrive(parcel),
            Event::Hear(parcel, heard) => self.hear(&parcel, heard.as_deref()),
            Event::GiveUp(request) => self.give_up(request),
            Event::Sweep(life) => {
                self.sweep(life, false);
                self.push(self.now + self.scenario.sweeps, Event::Sweep(life));
            }
            Event::Publish(machine, policies) => {
                let known = &mut self.machines[machine].policies;
                if known.revision < policies.revision {
                    *known = policies;
                }
            }
            Event::Happen => {
                self.happen();
                let wait = self.random.within(1, 2 * self.scenario.every);
                self.push(self.now + wait, Event::Happen);
            }
            Event::Raise => self.raise(),
            Event::Start(machine) => self.start(machine),
            Event::Stop(life) => self.stop(life),
        }
    }

    /// Whether whoever an event is for can take it.
    fn recipient(&self, event: &Event) -> Recipient {
        let life = match event {
            Event::Ask(request, _) => self.requests[*request].life,
            Event::Send(life, _) | Event::Sweep(life) | Event::Stop(life) => *life,
            Event::Hear(parcel, _) => parcel.life(),
            _ => return Recipient::Awake,
        };
        let machine = &self.machines[life.machine];
        if !machine.up || machine.life != life.number {
            Recipient::Dead
        } else if machine.asleep > self.now {
            Recipient::Asleep(machine.asleep)
        } else {
            Recipient::Awake
        }
    }

    /// A length of time for which a node now happens to do nothing.
    pub(crate) fn pause(&mut self) -> u64 {
        if self.random.chance(self.scenario.pauses) {
            self.random.scaled(MICRO, 2 * SECOND)
        } else {
            0
        }
    }

    /// A node does nothing for a while. Says until when.
    pub(crate) fn sleep(&mut self, life: Life, length: u64) -> u64 {
        let until = self.now + length;
        self.machines[life.machine].asleep = until;
        until
    }

    /// How long a message is under way.
    pub(crate) fn delay(&mut self) -> u64 {
        let trip = self.scenario.trip;
        if self.random.chance(self.scenario.late) {
            return self.random.scaled(trip, 600 * MILLI);
        }
        self.random.within(trip / 2, trip * 3 / 2)
    }

    /// A node comes to life.
    fn start(&mut self, machine: usize) {
        let drift = self.random.pick(&[-500, -499, -100, 0, 100, 499, 500]);
        let clock = Clock::new(self.now, self.random.below(1 << 40), drift);
        let mut node = Node::new(self.random.below(1 << 52), 1_000);
        if let Some(Plant::Node(bug)) = self.options.plant {
            node.plant(bug);
        }
        node.set_nodes(self.scenario.nodes as u64);
        node.set_clock(self.store.shows(0, self.now) / 1_000, clock.read(self.now));
        let old = self.machines.get(machine);
        let number = old.map_or(0, |old| old.life);
        // One that nobody told of changes has the policies that lie on its disk.
        let of_disk = old.filter(|_| self.scenario.stale).map(|old| &old.policies);
        let started = Machine {
            node,
            local: MemoryStore::new(1_000),
            clock,
            policies: Rc::clone(of_disk.unwrap_or(&self.policies)),
            life: number,
            up: true,
            asleep: 0,
            heard: BTreeMap::new(),
        };
        match self.machines.get_mut(machine) {
            Some(old) => *old = started,
            None => self.machines.push(started),
        }
        let sweep = Event::Sweep(Life { machine, number });
        self.push(self.now + self.scenario.sweeps, sweep);
    }

    /// A node dies. What it held, and who waited for it, is gone.
    fn stop(&mut self, life: Life) {
        let machine = &mut self.machines[life.machine];
        machine.up = false;
        machine.life += 1;
        let back = self.now + self.random.scaled(MILLI, SECOND);
        self.push(back, Event::Start(life.machine));
    }

    /// The present life of a node.
    pub(crate) fn life(&self, machine: usize) -> Life {
        Life {
            machine,
            number: self.machines[machine].life,
        }
    }

    /// A node gives back what has ended, or everything.
    pub(crate) fn sweep(&mut self, life: Life, all: bool) {
        let machine = &self.machines[life.machine];
        let now = machine.clock.read(self.now);
        machine.node.set_clock(self.store.shows(0, self.now) / 1_000, now);
        let mut due = Vec::new();
        for _ in 0..machine.node.shard_count() {
            due.extend(machine.node.sweep(now, all).into_iter().map(home_of));
        }
        due.sort_unstable();
        for home in due {
            self.push(self.now, Event::Send(life, home));
        }
    }

    /// Sees to it that every home has a slot.
    pub(crate) fn grow(&mut self) {
        self.store.grow(self.places.homes());
        self.began.resize(self.places.homes(), 0);
        self.failovers.resize(self.places.homes(), 0);
    }

    /// What the clocks of all homes show.
    pub(crate) fn shows(&self, now: u64) -> Vec<u64> {
        let homes = 0..self.store.homes.len();
        homes.map(|home| self.store.shows(home, now)).collect()
    }

    /// What comes after everything so far.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order * MOST_PARTS
    }

    /// Whether a home is of another generation than before. What the store was told is then forgotten.
    pub(crate) fn begins(&mut self, home: usize, began: u64) -> bool {
        // A copy that had not heard of the last generation may give its number to the next.
        let failovers = self.store.homes[home].failovers;
        if self.began[home] == began && self.failovers[home] == failovers {
            return false;
        }
        (self.began[home], self.failovers[home]) = (began, failovers);
        let natures = &self.history.natures;
        let elsewhere = |counter: &usize| natures.get(counter).is_none_or(|nature| nature.home != home);
        self.told.retain(|counter, _| elsewhere(counter));
        self.open.retain(|counter, _| elsewhere(counter));
        true
    }

    /// Whether a revision of a limit is new to the store, which knows only of counters that were touched, or that
    /// replace one of another slot. A window from its first request is not kept unless it is open.
    pub(crate) fn is_news(&mut self, counter: usize, subject: &Subject, touched: bool, stamp: u64) -> bool {
        let terms = &subject.terms;
        let known = self.told.get(&counter).copied();
        let mut kept = touched;
        let mut open = true;
        if terms.kind == Kind::First {
            let window = terms.window * 1_000;
            let end = self.open.entry(counter).or_insert(0);
            if touched && stamp >= *end {
                *end = stamp + window;
            } else if known.is_none() && subject.left > 0 {
                let home = self.history.natures.get(&counter).map_or(0, |nature| nature.home);
                let lost = (subject.left * 1_000).min(stamp).max(self.began[home] * 1_000);
                *end = lost + window;
            }
            open = stamp < *end;
        }
        kept |= subject.left > 0 && open;
        let news = known.map_or(kept, |known| known < terms.revision && open);
        if news {
            self.told.insert(counter, terms.revision);
        }
        news
    }

    pub(crate) fn entry(&mut self, order: u64, stamp: u64, home: usize, counter: Option<usize>, what: What) {
        self.history.entries.push(Entry {
            at: self.now,
            order,
            stamp,
            home,
            counter,
            what,
        });
    }
}
