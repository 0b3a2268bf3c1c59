//! The shared store: servers with clocks of their own, and the slots that they keep.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tollgate_counters::shared::call::{Call, Micros, Reply};
use tollgate_counters::shared::slot::{Bug, Slot};

/// A copy is brought up to date when so many calls are behind.
const MOST_BEHIND: usize = 64;

/// A server.
#[derive(Debug)]
pub struct Server {
    /// As those who call it know it: another one after a restart.
    pub owner: u64,
    /// How far its clock is ahead of the true time.
    pub skew: i64,
    /// It does nothing until then.
    pub stalled: u64,
}

/// A slot, with its copy on another server.
#[derive(Debug)]
pub struct Home {
    /// The server that keeps it.
    pub server: usize,
    /// It is being moved until then.
    pub moving: u64,
    /// How often a server's copy has taken its place here.
    pub failovers: u64,
    slot: Slot,
    copy: Slot,
    behind: VecDeque<Applied>,
}

#[derive(Debug)]
struct Applied {
    at: u64,
    owner: u64,
    time: Micros,
    call: Rc<Call>,
}

/// A primary that another one has replaced and that does not know it yet, with what it knew then.
#[derive(Debug)]
struct CutOff {
    owner: u64,
    server: usize,
    skew: i64,
    /// When it finds out.
    until: u64,
    /// The nodes that still reach it, and nobody else, one bit each.
    beside: u64,
    slots: BTreeMap<usize, Slot>,
}

/// All of it.
#[derive(Debug)]
pub struct Store {
    /// The servers.
    pub servers: Vec<Server>,
    /// The slots.
    pub homes: Vec<Home>,
    cut_off: Option<CutOff>,
    owners: u64,
    bug: Option<Bug>,
}

impl Store {
    /// A store of so many servers.
    pub fn new(servers: usize, bug: Option<Bug>) -> Self {
        let server = |owner: usize| Server {
            owner: owner as u64,
            skew: 0,
            stalled: 0,
        };
        Self {
            servers: (0..servers).map(server).collect(),
            homes: Vec::new(),
            cut_off: None,
            owners: servers as u64,
            bug,
        }
    }

    /// Sees to it that there are so many slots.
    pub fn grow(&mut self, homes: usize) {
        while self.homes.len() < homes {
            let server = self.homes.len() % self.servers.len();
            let mut slot = Slot::installed(self.servers[server].owner);
            slot.bug = self.bug;
            self.homes.push(Home {
                server,
                moving: 0,
                failovers: 0,
                copy: slot.clone(),
                slot,
                behind: VecDeque::new(),
            });
        }
    }

    /// The server of a home, as those who call it know it.
    pub fn owner(&self, home: usize) -> u64 {
        self.servers[self.homes[home].server].owner
    }

    /// Whether there is a server of that name.
    pub fn serves(&self, owner: u64) -> bool {
        self.servers.iter().any(|server| server.owner == owner)
    }

    /// What the clock of a home's server shows.
    fn time(&self, home: usize, now: u64) -> Micros {
        let skew = self.servers[self.homes[home].server].skew;
        (now / 1_000).saturating_add_signed(skew)
    }

    /// The store's time of a home, in nanoseconds.
    pub fn shows(&self, home: usize, now: u64) -> u64 {
        let server = &self.servers[self.homes[home].server];
        let clock = now.saturating_add_signed(server.skew * 1_000);
        let highest = self.homes[home]
            .slot
            .sentinel
            .map_or(0, |sentinel| sentinel.highest);
        clock.max(highest * 1_000)
    }

    /// Runs a call.
    pub fn run(&mut self, home: usize, now: u64, call: &Rc<Call>) -> Reply {
        let time = self.time(home, now);
        let keeper = &mut self.homes[home];
        let owner = self.servers[keeper.server].owner;
        keeper.behind.push_back(Applied {
            at: now,
            owner,
            time,
            call: Rc::clone(call),
        });
        if keeper.behind.len() > MOST_BEHIND {
            keeper.catch_up(MOST_BEHIND / 2);
        }
        keeper.slot.run(owner, time, call)
    }

    /// A server comes back under another name, or another takes its place, with what was copied `lag` ago.
    pub fn fail_over(&mut self, server: usize, now: u64, lag: u64, skew: i64) {
        self.servers[server].owner = self.owners;
        self.servers[server].skew = skew;
        self.owners += 1;
        for home in self.homes.iter_mut().filter(|home| home.server == server) {
            home.failovers += 1;
        }
        self.go_back(server, now, lag);
    }

    /// A server is cut off together with some nodes, one bit each. Another one is about to take its place.
    pub fn cut_off(&mut self, server: usize, until: u64, beside: u64) {
        let homes = self.homes.iter().enumerate();
        let own = homes.filter(|(_, home)| home.server == server);
        self.cut_off = Some(CutOff {
            owner: self.servers[server].owner,
            server,
            skew: self.servers[server].skew,
            until,
            beside,
            slots: own.map(|(number, home)| (number, home.slot.clone())).collect(),
        });
    }

    /// Runs a call of a node on the server that is cut off together with it, if there is one.
    pub fn run_cut_off(&mut self, node: usize, home: usize, now: u64, call: &Call) -> Option<Reply> {
        let server = self.homes[home].server;
        let alone = self.cut_off.as_mut()?;
        let beside = alone.beside >> node & 1 == 1;
        if now >= alone.until || !beside || alone.server != server {
            return None;
        }
        let time = (now / 1_000).saturating_add_signed(alone.skew);
        Some(alone.slots.get_mut(&home)?.run(alone.owner, time, call))
    }

    /// What a home would note as the highest time if it knew what was copied `lag` ago, and no more.
    pub fn noted(&self, home: usize, now: u64, lag: u64) -> Micros {
        let home = &self.homes[home];
        let kept = home.behind.partition_point(|applied| applied.at + lag <= now);
        let mut copy = home.copy.clone();
        for applied in home.behind.iter().take(kept) {
            copy.run(applied.owner, applied.time, &applied.call);
        }
        copy.sentinel.map_or(0, |sentinel| sentinel.highest)
    }

    /// A server comes back with what was copied `lag` ago.
    pub fn go_back(&mut self, server: usize, now: u64, lag: u64) {
        for home in self.homes.iter_mut().filter(|home| home.server == server) {
            let kept = home.behind.partition_point(|applied| applied.at + lag <= now);
            home.catch_up(kept);
            home.behind.clear();
            home.slot = home.copy.clone();
        }
    }

    /// Loses everything a server has.
    pub fn flush(&mut self, server: usize) {
        for home in self.homes.iter_mut().filter(|home| home.server == server) {
            home.slot.flush();
            home.copy.flush();
            home.behind.clear();
        }
    }

    /// Moves a slot as planned: the new server takes it over as its own, if it was the old one's. What the old
    /// one has lost and nobody has noticed yet is not forgiven on the way.
    pub fn migrate(&mut self, home: usize, server: usize, until: u64) {
        let (from, to) = (self.owner(home), self.servers[server].owner);
        let home = &mut self.homes[home];
        home.server = server;
        home.moving = until;
        if let Some(sentinel) = &mut home.slot.sentinel
            && sentinel.owner == from
        {
            sentinel.owner = to;
        }
        home.copy = home.slot.clone();
        home.behind.clear();
    }
}

impl Home {
    fn catch_up(&mut self, calls: usize) {
        for applied in self.behind.drain(..calls) {
            self.copy.run(applied.owner, applied.time, &applied.call);
        }
    }
}
