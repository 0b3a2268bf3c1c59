//! The limits of a run in all their versions, and where their counters live.

use std::collections::HashMap;
use std::rc::Rc;

use tollgate_core::{CounterKey, KeySeed, Mode, Rule};
use tollgate_counters::shared::call::Name;
use tollgate_counters::shared::node::Fail;

const SEED: KeySeed = KeySeed::new(1, 2);
/// How many counters of one limit there can be.
const CALLERS: usize = 8;

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything: a counter in a slot of its own.
    Global,
    /// An address: a counter in a slot of its own.
    Ip,
    /// An org.
    Org,
    /// An app of an org.
    App,
}

/// Who asks, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The org.
    pub org: usize,
    /// The app.
    pub app: usize,
    /// The address.
    pub ip: usize,
    /// What is called.
    pub endpoint: u8,
}

/// A limit.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Its numbers.
    pub rule: Rule,
    /// What it does without room.
    pub mode: Mode,
    /// How many parts of ten thousand may lie unused.
    pub accuracy: u16,
    /// What is counted together.
    pub scope: Scope,
    /// What it does while the store is away.
    pub fail: Fail,
    /// Which of a request's costs it counts.
    pub unit: usize,
    /// The endpoints it is about, a bit each.
    pub endpoints: u8,
    /// Which count it is.
    pub count: usize,
    /// The counts that this one replaces.
    pub formers: Vec<Past>,
}

/// How a limit counted before.
#[derive(Debug, Clone)]
pub struct Past {
    /// Which count it was.
    pub count: usize,
    /// What was counted together.
    pub scope: Scope,
    /// Its numbers at last.
    pub rule: Rule,
    /// When it was left, in true nanoseconds.
    pub left: u64,
    /// Until when it is known: by then it can't matter any more.
    pub until: u64,
}

/// All limits at one revision, from broad to narrow.
#[derive(Debug, Clone)]
pub struct Policies {
    /// Which version it is.
    pub revision: u64,
    /// The limits.
    pub list: Vec<Policy>,
}

impl Scope {
    fn who(self, caller: Caller) -> usize {
        match self {
            Self::Global => 0,
            Self::Ip => caller.ip,
            Self::Org => caller.org,
            Self::App => caller.org * 2 + caller.app,
        }
    }

    /// From broad to narrow.
    pub fn rank(self) -> usize {
        match self {
            Self::Global => 0,
            Self::Ip => 1,
            Self::Org => 2,
            Self::App => 3,
        }
    }

    /// Whether one of its counters has all that one of another scope would have.
    pub fn is_no_narrower_than(self, other: Self) -> bool {
        match self {
            Self::Global => true,
            Self::Ip => other == Self::Ip,
            Self::Org => !other.spans(),
            Self::App => other == Self::App,
        }
    }

    /// Whether it spans orgs.
    pub fn spans(self) -> bool {
        matches!(self, Self::Global | Self::Ip)
    }
}

impl Policy {
    /// Whether it is about a request.
    pub fn applies(&self, caller: Caller) -> bool {
        self.endpoints >> caller.endpoint & 1 == 1
    }
}

/// The counter of a caller.
pub fn counter(count: usize, scope: Scope, caller: Caller) -> usize {
    count * CALLERS + scope.who(caller)
}

/// Where a counter lives.
#[derive(Debug, Clone)]
pub struct Place {
    /// What nodes know it by.
    pub key: CounterKey,
    /// What the store knows it by.
    pub name: Name,
    /// Its home, by its place among them.
    pub home: usize,
}

/// Where counters live.
#[derive(Debug, Default)]
pub struct Places {
    known: HashMap<usize, Rc<Place>>,
    /// Homes of orgs come first.
    homes: usize,
}

impl Places {
    /// A world of so many orgs.
    pub fn new(orgs: usize) -> Self {
        Self {
            known: HashMap::new(),
            homes: orgs,
        }
    }

    /// Where a counter lives, which is decided when it is first asked for.
    pub fn of(&mut self, counter: usize, scope: Scope, org: usize) -> Rc<Place> {
        let homes = &mut self.homes;
        let place = self.known.entry(counter).or_insert_with(|| {
            let home = if scope.spans() {
                *homes += 1;
                *homes - 1
            } else {
                org
            };
            let mut name = [0; 16];
            name[..8].copy_from_slice(&(counter as u64).to_le_bytes());
            Rc::new(Place {
                key: CounterKey::new(SEED.id(&counter.to_le_bytes())),
                name: Name(name),
                home,
            })
        });
        Rc::clone(place)
    }

    /// How many homes there are by now.
    pub fn homes(&self) -> usize {
        self.homes
    }
}

/// What nodes know a home by. Some share a shard.
pub fn home_id(home: usize) -> u64 {
    let home = home as u64;
    (home % 5 + 1) << 56 | home
}

/// The home that nodes know by that.
pub fn home_of(id: u64) -> usize {
    usize::try_from(id & 0xff).unwrap_or(0)
}

/// The counter of a name.
pub fn numbered(name: Name) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&name.0[..8]);
    usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(0)
}
