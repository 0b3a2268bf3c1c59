//! What a seed stands for: how large the world is, what its limits are, what can happen in it.

use tollgate_core::{Algorithm, Anchor, Mode, Period, Rule};
use tollgate_counters::shared::node::Fail;

use crate::policies::{Policies, Policy, Scope};
use crate::random::Random;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000 * MICRO;
const SECOND: u64 = 1_000 * MILLI;
const DAY: u64 = 86_400 * SECOND;
/// A midnight, near which runs take place.
const MIDNIGHT: u64 = 19_783 * DAY;

/// Something that befalls the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// A node dies, or is stopped, and comes back.
    Crash,
    /// A server's place is taken by its copy, which is behind.
    FailOver,
    /// A server comes back under its own name with what it knew a while ago.
    GoBack,
    /// A server loses everything.
    Flush,
    /// A server's clock is set, by up to a few seconds.
    ClockStep,
    /// A server's clock is set back by far.
    FarBack,
    /// A server stops for a while, then does what came meanwhile.
    Stall,
    /// A slot is moved to another server.
    Migrate,
    /// A limit is changed.
    Revise,
}

/// What a run is like.
#[derive(Debug)]
pub struct Scenario {
    /// When it starts, in true nanoseconds.
    pub start: u64,
    /// Nothing goes wrong in it.
    pub calm: bool,
    /// Nodes.
    pub nodes: usize,
    /// Servers of the store.
    pub servers: usize,
    /// Orgs.
    pub orgs: usize,
    /// How many requests there are.
    pub requests: u64,
    /// The limits at first.
    pub policies: Policies,
    /// How long a message is under way.
    pub trip: u64,
    /// Of a thousand messages, how many are lost.
    pub lost: u64,
    /// Of a thousand messages, how many are late.
    pub late: u64,
    /// Of a thousand calls, how many are run twice.
    pub doubled: u64,
    /// One node learns of new policies long after the others, and starts with those that it had.
    pub stale: bool,
    /// Nothing is asked but what shows whether a faster bucket keeps room for what is on lease.
    pub raises: bool,
    /// At a thousand points where a node could pause, how often it does.
    pub pauses: u64,
    /// What befalls it.
    pub happenings: Vec<Happening>,
    /// How often.
    pub every: u64,
    /// How often a node looks after what it holds.
    pub sweeps: u64,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(random: &mut Random) -> Self {
        let calm = random.chance(250);
        let nodes = random.pick(&[1, 2, 2, 3, 3, 5]);
        let orgs = random.pick(&[1, 1, 2]);
        let some = |random: &mut Random, most: u64| {
            if calm || random.chance(500) {
                0
            } else {
                random.scaled(1, most)
            }
        };
        let mut happenings = Vec::new();
        if !calm {
            for (permille, happening) in HAPPENINGS {
                if random.chance(permille) {
                    happenings.push(happening);
                }
            }
        }
        let scenario = Self {
            start: MIDNIGHT - random.within(0, 3 * SECOND),
            calm,
            nodes,
            servers: random.pick(&[1, 1, 2, 3]),
            orgs,
            requests: random.within(400, 1_600),
            policies: Policies {
                revision: 1,
                list: policies(random),
            },
            trip: random.scaled(20 * MICRO, 2 * MILLI),
            lost: some(random, 100),
            late: some(random, 200),
            doubled: some(random, 200),
            stale: !calm && random.chance(200),
            raises: false,
            pauses: some(random, 100),
            happenings,
            every: random.scaled(50 * MILLI, 3 * SECOND),
            sweeps: random.scaled(30 * MILLI, 300 * MILLI),
        };
        match random.below(20) {
            0 => scenario.of_a_raise(random),
            1 => scenario.of_tokens_kept(random),
            2 => scenario.of_one_who_remembers(),
            3 => scenario.of_an_outage(random),
            _ => scenario,
        }
    }

    /// One bucket whose limit changes while much of it is on lease.
    fn of_a_raise(mut self, random: &mut Random) -> Self {
        let limit = random.pick(&[50, 100, 200]);
        let window_ns = random.pick(&[500, 1_000]) * MILLI;
        let list = vec![Policy {
            rule: Rule::new(Algorithm::TokenBucket, limit, Some(limit), window_ns),
            mode: Mode::Enforce,
            accuracy: 9_000,
            scope: Scope::Org,
            fail: Fail::Closed,
            unit: 0,
            endpoints: 0b11,
            count: 0,
            formers: Vec::new(),
        }];
        (self.nodes, self.orgs) = (2, 1);
        (self.policies.list, self.calm) = (list, false);
        (self.happenings, self.every) = (vec![Happening::Revise], 150 * MILLI);
        self.raises = random.chance(500);
        if self.raises {
            (self.lost, self.late, self.pauses, self.stale) = (0, 0, 0, false);
            (self.trip, self.happenings) = (30 * MICRO, Vec::new());
        }
        self
    }

    /// A server that comes back with an older state, under its own name, to the one node that has heard more of it. No
    /// call that was sent before comes in between: it would be taken for that of somebody who has heard nothing.
    fn of_one_who_remembers(mut self) -> Self {
        (self.nodes, self.calm, self.stale) = (1, false, false);
        (self.late, self.doubled) = (0, 0);
        (self.happenings, self.every) = (vec![Happening::GoBack], 300 * MILLI);
        self
    }

    /// One bucket that drains on several nodes while the store stops, again and again.
    fn of_an_outage(mut self, random: &mut Random) -> Self {
        let algorithm = random.pick(&[Algorithm::TokenBucket, Algorithm::LeakyBucket]);
        let window_ns = random.pick(&[100, 250, 500, 1_000]) * MILLI;
        let list = vec![Policy {
            rule: rule(random, algorithm, window_ns),
            mode: Mode::Enforce,
            accuracy: random.pick(&[0, 500, 5_000]),
            scope: random.pick(&[Scope::Org, Scope::Global]),
            fail: random.pick(&[Fail::Local, Fail::Open]),
            unit: 0,
            endpoints: 0b11,
            count: 0,
            formers: Vec::new(),
        }];
        (self.nodes, self.orgs, self.servers) = (random.pick(&[1, 2, 3, 5]), 1, 1);
        (self.policies.list, self.calm, self.stale) = (list, false, false);
        (self.lost, self.late, self.doubled) = (0, 0, 0);
        (self.happenings, self.every) = (vec![Happening::Stall], random.scaled(200 * MILLI, 2 * SECOND));
        self
    }

    /// A limit that spans orgs, and for some calls orgs below it that refuse again and again, and late: tokens of the
    /// broad one are kept meanwhile, while its windows pass.
    fn of_tokens_kept(mut self, random: &mut Random) -> Self {
        let broad = Policy {
            rule: Rule::new(Algorithm::FixedWindow(Anchor::Epoch), 60, None, 50 * MILLI),
            mode: Mode::Enforce,
            accuracy: 9_000,
            scope: Scope::Global,
            fail: Fail::Closed,
            unit: 0,
            endpoints: 0b11,
            count: 0,
            formers: Vec::new(),
        };
        let limit = random.pick(&[5, 10, 20]);
        let narrow = Policy {
            rule: Rule::new(Algorithm::TokenBucket, limit, Some(2), 50 * MILLI),
            accuracy: 0,
            scope: Scope::Org,
            endpoints: 0b01,
            count: 1,
            ..broad.clone()
        };
        (self.nodes, self.orgs, self.late) = (random.pick(&[1, 2]), 2, 200);
        (self.policies.list, self.calm) = (vec![broad, narrow], false);
        self
    }
}

/// Of a thousand runs, in how many something happens.
const HAPPENINGS: [(u64, Happening); 8] = [
    (250, Happening::Crash),
    (250, Happening::FailOver),
    (250, Happening::Flush),
    (250, Happening::ClockStep),
    (250, Happening::FarBack),
    (250, Happening::Stall),
    (250, Happening::Migrate),
    (250, Happening::Revise),
];

/// What is counted together, and how often.
pub const SCOPES: [(u64, Scope); 4] = [
    (2, Scope::Org),
    (2, Scope::App),
    (1, Scope::Global),
    (1, Scope::Ip),
];

const MODES: [(u64, Mode); 3] = [(4, Mode::Enforce), (1, Mode::Shadow), (1, Mode::Soft)];

const ALGORITHMS: [(u64, Algorithm); 7] = [
    (4, Algorithm::TokenBucket),
    (2, Algorithm::LeakyBucket),
    (2, Algorithm::FixedWindow(Anchor::Epoch)),
    (2, Algorithm::FixedWindow(Anchor::First)),
    (2, Algorithm::SlidingCounter),
    (3, Algorithm::SlidingLog),
    (1, Algorithm::Quota(Period::Day)),
];

fn policies(random: &mut Random) -> Vec<Policy> {
    let count = random.pick(&[1, 1, 1, 2, 2, 3, 4]);
    let mut list: Vec<Policy> = (0..count).map(|count| policy(random, count)).collect();
    list.sort_by_key(|policy| policy.scope.rank());
    list
}

/// A limit of the given count.
pub fn policy(random: &mut Random, count: usize) -> Policy {
    let (algorithm, window_ns) = algorithm(random);
    Policy {
        rule: rule(random, algorithm, window_ns),
        mode: random.weighted(&MODES),
        accuracy: random.pick(&[0, 100, 500, 500, 2_000, 5_000, 9_000]),
        scope: random.weighted(&SCOPES),
        fail: random.pick(&[Fail::Closed, Fail::Local, Fail::Open]),
        unit: usize::from(random.chance(100)),
        endpoints: random.pick(&[0b11, 0b11, 0b11, 0b01, 0b10]),
        count,
        formers: Vec::new(),
    }
}

/// A way to count, and a window.
pub fn algorithm(random: &mut Random) -> (Algorithm, u64) {
    let window_ns = random.pick(&[20, 100, 250, 500, 1_000, 2_000]) * MILLI;
    let algorithm = random.weighted(&ALGORITHMS);
    match algorithm {
        Algorithm::Quota(_) => (algorithm, Period::Day.nominal_ns()),
        _ => (algorithm, window_ns),
    }
}

/// Numbers for a limit.
pub fn rule(random: &mut Random, algorithm: Algorithm, window_ns: u64) -> Rule {
    let limit = random.pick(&[1, 5, 20, 50, 100, 200, 400]);
    let burst = random.pick(&[limit, limit, limit / 4 + 1, limit * 2]);
    Rule::new(algorithm, limit, Some(burst), window_ns)
}
