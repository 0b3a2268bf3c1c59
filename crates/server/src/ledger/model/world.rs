//! What happens to nodes and their ledger.

use tempfile::TempDir;
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::{Request, parse_policy_set};
use tollgate_core::Timestamp;

use super::Draw;
use super::database::Database;
use super::judge::{Counter, Judge, Terms};
use super::node::{Answered, Around, Fate, Node};
use crate::ledger::will::Will;

pub(super) const ORGS: [&str; 2] = ["acme", "globex"];
pub(super) const MODES: [&str; 3] = ["closed", "open", "local"];
/// The limits of plans.
const LIMITS: [u64; 2] = [60, 150];
const NODES: usize = 3;
const EVENTS: u64 = 60;
pub(super) const HOUR_NS: u64 = 3_600_000_000_000;
pub(super) const DAY_NS: u64 = 24 * HOUR_NS;
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// For so long the same nodes have to have been there to know of each other.
const STEADY: u64 = 25 * SECOND;

pub(super) struct World {
    draw: Draw,
    now: u64,
    nodes: Vec<Node>,
    /// What outlives a node's process.
    directories: Vec<TempDir>,
    runs: u64,
    database: Database,
    judge: Judge,
    /// What becomes of what is said next.
    fate: Fate,
    kills: bool,
    /// Since when the same nodes run.
    since: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let now = 20_000 * DAY_NS + draw.below(DAY_NS);
        let terms = Terms {
            limit: LIMITS[0],
            west: 0,
        };
        let mut world = Self {
            kills: draw.below(2) == 0,
            draw,
            now,
            nodes: Vec::new(),
            directories: (0..NODES).map(|_| TempDir::new().unwrap()).collect(),
            runs: 0,
            database: Database {
                available: true,
                ..Database::default()
            },
            judge: Judge::new(terms, now),
            fate: Fate::Answered,
            since: now,
        };
        for place in 0..NODES {
            let node = world.start(place, Vec::new());
            world.nodes.push(node);
        }
        world
    }

    pub(super) fn allowed(&self) -> u64 {
        self.judge.allowed
    }

    /// What went wrong first, if something did.
    pub(super) fn run(&mut self) -> Option<String> {
        self.pass(20 * SECOND);
        for event in 0..EVENTS {
            self.happen();
            if let Some(problem) = self.judge.problem.take() {
                return Some(format!("event {event}: {problem}"));
            }
        }
        self.finish();
        self.judge
            .problem
            .take()
            .map(|problem| format!("at the end: {problem}"))
    }

    fn happen(&mut self) {
        match self.draw.below(100) {
            0..30 => {
                let (node, counter) = (self.draw.place(NODES), self.counter());
                let times = 1 + self.draw.below(15);
                self.ask(node, counter, times);
            }
            30..45 => {
                let time = 100 * MILLISECOND + self.draw.below(3 * SECOND);
                self.pass(time);
            }
            45..52 => {
                let time = 31 * SECOND + self.draw.below(20 * SECOND);
                self.pass(time);
            }
            52..64 => self.turn(),
            64..70 if self.database.available => self.lose_database(),
            64..70 => self.find_database(),
            70..73 => {
                self.fate = [Fate::Lost, Fate::Unheard][self.draw.place(2)];
            }
            73..75 if self.kills => {
                let place = self.draw.place(NODES);
                self.kill(place);
            }
            75..78 => {
                let place = self.draw.place(NODES);
                self.restart(place);
            }
            78..83 => {
                let org = self.draw.place(ORGS.len());
                let limit = LIMITS[self.draw.place(2)];
                let terms = self.judge.present(org);
                self.change(org, Terms { limit, ..terms });
            }
            83..86 if self.database.available => {
                // What fallbacks have let through by one calendar is told before there is another.
                self.settle();
                let org = self.draw.place(ORGS.len());
                let west = [0, 5, 8][self.draw.place(3)];
                let terms = self.judge.present(org);
                self.change(org, Terms { west, ..terms });
            }
            86..90 => {
                let place = self.draw.place(NODES);
                self.nodes[place].sweep(Timestamp::from_nanos(self.now));
            }
            90..94 => self.rush(),
            _ if self.database.available => self.settle(),
            _ => {}
        }
    }

    fn counter(&mut self) -> Counter {
        (self.draw.place(ORGS.len()), self.draw.place(MODES.len()))
    }

    fn around(&mut self) -> (&mut Vec<Node>, Around<'_>) {
        let fate = std::mem::replace(&mut self.fate, Fate::Answered);
        let around = Around {
            database: &mut self.database,
            judge: &mut self.judge,
            fate,
            now: Timestamp::from_nanos(self.now),
        };
        (&mut self.nodes, around)
    }

    /// Asks a node so often.
    fn ask(&mut self, place: usize, (org, mode): Counter, times: u64) -> u64 {
        let mut allowed = 0;
        for _ in 0..times {
            let cost = 1 + self.draw.below(3);
            allowed += self.ask_once(place, (org, mode), cost);
        }
        allowed
    }

    fn ask_once(&mut self, place: usize, counter: Counter, cost: u64) -> u64 {
        let mut request = Request {
            org: Some(ORGS[counter.0]),
            cost,
            ..Request::new()
        };
        request.scopes.push(MODES[counter.1]);
        let (nodes, mut around) = self.around();
        let answered = nodes[place].check(&request, &mut around);
        let Answered::Allowed { end, fallback } = answered else {
            return 0;
        };
        let runs = self.judge.runs(counter, &self.database, self.now);
        self.judge.allow(counter, cost, (end, runs), fallback);
        cost
    }

    /// Time passes, and nodes do what they do again and again: often at first, then now and then.
    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        let soon = self.now + 2 * SECOND;
        while self.now < end {
            let step = if self.now < soon { SECOND / 5 } else { SECOND };
            self.now = end.min(self.now + step);
            for place in 0..NODES {
                // Enough for each account to be looked at.
                for _ in 0..ORGS.len() * MODES.len() {
                    let (nodes, mut around) = self.around();
                    nodes[place].tick(&mut around);
                }
            }
        }
    }

    /// The day of an org turns, after nobody has asked for a while.
    fn turn(&mut self) {
        let org = self.draw.place(ORGS.len());
        let end = self.judge.present(org).day_end(self.now);
        let before = SECOND + self.draw.below(60 * SECOND);
        if self.now + before < end {
            self.now = end - before;
            // Nobody has said anything for hours, and shares have filled up meanwhile.
            self.since = self.now;
            self.judge.outage_ends();
        }
        let after = [50 * MILLISECOND, 400 * MILLISECOND, SECOND, 3 * SECOND][self.draw.place(4)];
        self.pass((end - self.now) + after);
        for _ in 0..3 {
            let (node, counter) = (self.draw.place(NODES), self.counter());
            self.ask(node, counter, 2);
        }
    }

    /// Everybody is asked while the database is unavailable.
    fn rush(&mut self) {
        if self.database.available {
            let quiet = 20 * SECOND + self.draw.below(20 * SECOND);
            self.pass(quiet);
            self.lose_database();
        }
        let counter = self.counter();
        for place in 0..NODES {
            self.ask(place, counter, 60);
        }
        self.pass(SECOND);
        self.find_database();
    }

    fn lose_database(&mut self) {
        self.database.available = false;
        self.judge.outage_begins(self.now - self.since > STEADY);
    }

    fn find_database(&mut self) {
        self.database.available = true;
        self.judge.outage_ends();
    }

    /// Everybody tells all that they know.
    fn settle(&mut self) {
        self.fate = Fate::Answered;
        self.pass(5 * SECOND);
        self.judge_all(false);
    }

    fn judge_all(&mut self, at_the_end: bool) {
        let known = self.nodes.iter().flat_map(Node::known).collect();
        self.judge.settled(&self.database, &known, self.now, at_the_end);
    }

    fn kill(&mut self, place: usize) {
        self.judge.killed(&self.database, self.now);
        self.judge.outage_ends();
        let wills = std::mem::take(&mut self.nodes[place].wills);
        self.nodes[place] = self.start(place, wills);
    }

    /// A node ends in order, perhaps while the database is unavailable, and is started again.
    fn restart(&mut self, place: usize) {
        self.fate = Fate::Answered;
        let (nodes, mut around) = self.around();
        let told = nodes[place].end(&mut around);
        let wills = if told {
            Vec::new()
        } else {
            nodes[place].leave(around.now)
        };
        self.judge.outage_ends();
        self.nodes[place] = self.start(place, wills);
    }

    fn start(&mut self, place: usize, wills: Vec<Will>) -> Node {
        self.runs += 1;
        self.since = self.now;
        Node::start(self.runs, &self.set(), self.directories[place].path(), wills)
    }

    /// An org has other terms from now on.
    fn change(&mut self, org: usize, terms: Terms) {
        // Nodes look at what is in force once in a second: what is so for less than that they may never have seen.
        let last = self.judge.terms[org].last().map_or(0, |(at, _)| *at);
        if self.now < last + 2 * SECOND {
            self.pass(2 * SECOND);
        }
        self.judge.terms[org].push((self.now, terms));
        let set = self.set();
        for node in &self.nodes {
            node.install(&set);
        }
    }

    fn set(&self) -> PolicySet {
        let orgs = ORGS.iter().enumerate().map(|(place, name)| {
            let Terms { limit, west } = self.judge.present(place);
            format!("  - {{orgId: {name}, tier: t{limit}, timezone: Etc/GMT+{west}}}\n")
        });
        let policies = LIMITS.iter().flat_map(|limit| {
            MODES.iter().map(move |mode| {
                format!(
                    "  - {{id: {mode}-{limit}, orgTier: t{limit}, scope: org, algorithm: quota, window: day, \
                     timezone: org, limit: {limit}, requiredScope: {mode}, failMode: {mode}}}\n"
                )
            })
        });
        let tiers = LIMITS.map(|limit| format!("{{tier: t{limit}}}")).join(", ");
        let text = format!(
            "tiers: [{tiers}]\norgs:\n{}policies:\n{}",
            orgs.collect::<String>(),
            policies.collect::<String>()
        );
        parse_policy_set(&text).unwrap_or_else(|problems| panic!("{problems:?}: {text}"))
    }

    /// All end in order. Then what is left of each quota is there, and no more.
    fn finish(&mut self) {
        self.find_database();
        self.settle();
        for place in 0..NODES {
            let (nodes, mut around) = self.around();
            assert!(nodes[place].end(&mut around), "the database answers");
        }
        self.judge_all(true);
        self.nodes[0] = self.start(0, Vec::new());
        for org in 0..ORGS.len() {
            for mode in 0..MODES.len() {
                let counter = (org, mode);
                let end = self.judge.runs(counter, &self.database, self.now);
                let end = end.unwrap_or_else(|| self.judge.present(org).day_end(self.now));
                let wanted = self.judge.left(counter, end);
                let mut all = 0;
                while all < 1_000 && self.ask_once(0, counter, 1) == 1 {
                    all += 1;
                }
                if wanted.is_some_and(|wanted| wanted != all) && self.judge.problem.is_none() {
                    let problem = format!("{all} were left of {counter:?}, not {wanted:?}");
                    self.judge.problem = Some(problem);
                }
            }
        }
    }
}
