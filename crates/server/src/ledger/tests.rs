//! Nodes on one row, in all sorts of trouble, on virtual time: whatever happens, no period admits more than the limit.

use jiff::tz::TimeZone;
use tollgate_catalog::repository::{Done, Granted, Row, Told};
use tollgate_core::{
    Algorithm, Allowance, BillingAnchor, Calendar, Cell, CounterKey, KeySeed, Period, Rule, Timestamp,
};
use tollgate_counters::memory::Note;

use super::account::{Account, Draft, Subject, Why};
use super::estate::unsettled;
use super::terms::Terms;

const LIMIT: u64 = 3_000;
const HOUR: u64 = 3_600_000_000_000;
const RUNS: u64 = 500;
const STEPS: u64 = 400;

/// Splitmix: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A node with a cell and an account, perhaps with an ask under way.
struct Node {
    cell: Option<Cell>,
    account: Account,
    /// An ask whose answer is lost, and what it was granted if it was done.
    unknown: Option<(Draft, Option<Granted>)>,
    /// What its journal says.
    note: Note,
    /// What it let through without the ledger before it was known what there is: no journal says that.
    unnoted: u64,
    /// What it let through in the period of its cell, which it may give back, and what it did.
    spent: u64,
    returned: u64,
}

impl Node {
    fn start(now: Timestamp) -> Self {
        let subject = Subject {
            key: CounterKey::new(KeySeed::new(1, 2).id(b"counter")),
            home: 0,
            name: [0; 16],
            org: String::new(),
            policy: String::new(),
            label: String::new(),
            asker: None,
        };
        let terms = Terms {
            limit: LIMIT,
            period: Period::Day,
            zone: TimeZone::UTC,
            anchor: BillingAnchor::First,
            exact: false,
            room: u64::MAX,
            formers: Vec::new(),
        };
        Self {
            cell: None,
            account: Account::new(subject, terms, true, true, now),
            unknown: None,
            note: Note::default(),
            unnoted: 0,
            spent: 0,
            returned: 0,
        }
    }

    /// Says whether something was granted that nobody can spend.
    fn find_out(&mut self) -> bool {
        let Some((draft, done)) = self.unknown.take() else {
            return false;
        };
        let cell = self.account.find_out(&draft, done, self.cell);
        self.cell = cell.or(self.cell);
        self.note = self.account.note(self.cell, None);
        // Only what was known before can be added to, and nothing that has ended.
        let knows = |granted: &Granted| draft.ask.generation == granted.generation;
        done.is_some_and(|granted| granted.amount > 0 && !knows(&granted))
    }

    fn draft(&mut self, now: Timestamp, why: Why) -> Option<Draft> {
        let (draft, cell) = self.account.draft(self.cell, now, why)?;
        self.cell = cell.or(self.cell);
        self.note = self.account.note(self.cell, Some(draft.telling(0)));
        Some(draft)
    }

    fn hear(&mut self, draft: &Draft, told: &Told, now: Timestamp) {
        let heard = self.account.hear(draft, told, self.cell, now);
        self.note = self.account.note(heard, None);
        self.unnoted = 0;
        self.hold(heard);
    }

    /// It dies. What it has left is settled by whoever finds its journal.
    fn die(&mut self, row: &mut Row, now: Timestamp) {
        let granted = self.unknown.as_ref().and_then(|(_, done)| *done);
        let done = Done {
            number: 1,
            granted: granted.into_iter().collect(),
        };
        let done = granted.is_some().then_some(&done);
        if let Some(left) = unsettled(&self.note, done) {
            row.settle(&left, now);
        }
        *self = Self::start(now);
    }

    /// Notes what a charge or a return has left.
    fn noted(&mut self) {
        if let Some(left) = self.cell.and_then(Cell::headroom) {
            self.note.left = left;
        }
    }

    /// As a store decides it: how much is let through of a request.
    fn decide(&mut self, cost: u64, open: bool, now: Timestamp) -> u64 {
        let rule = Rule::new(Algorithm::Quota(Period::Day), LIMIT, None, 24 * HOUR);
        let cell = rule.advance(self.cell.unwrap_or_default(), Calendar::utc(), now, false);
        let covered = Allowance::of(cell).is_some_and(|allowance| allowance.covers(cell.count(), cost));
        let fits = rule.fits(cell, cost, now);
        if fits && (covered || open) {
            self.hold(Some(rule.charge(cell, cost, now)));
            self.spent += cost;
            self.noted();
            if Allowance::of(cell).is_none() {
                self.unnoted += cost;
            }
            return cost;
        }
        if fits {
            self.account.needs += cost;
            self.account.wanted = true;
        }
        0
    }
}

impl Node {
    /// Has another cell, if there is one.
    fn hold(&mut self, cell: Option<Cell>) {
        let Some(cell) = cell else { return };
        if self.cell.is_none_or(|before| before.0[0] != cell.0[0]) {
            (self.spent, self.returned) = (0, 0);
        }
        self.cell = Some(cell);
    }

    /// Gives back some of what was let through in the period that is counted, as a settled reservation does.
    fn give_back(&mut self, most: u64) -> u64 {
        let Some(cell) = self.cell.as_mut() else { return 0 };
        let back = most.min(self.spent);
        self.spent -= back;
        self.returned += back;
        cell.0[1] -= back;
        self.noted();
        back
    }
}

struct World {
    random: Random,
    now: Timestamp,
    row: Row,
    /// What each generation of the row has let through, by what nodes knew at the time.
    admitted: u64,
    /// Of that, by fail mode `open`.
    open: u64,
    lost: bool,
    /// What nodes had given back that died, perhaps before the ledger was told.
    untold: u64,
    /// What nodes let through that died, and no journal says.
    unnoted: u64,
}

impl World {
    fn exchange(&mut self, node: &mut Node, why: Why) {
        self.lost |= node.find_out();
        let Some(draft) = node.draft(self.now, why) else {
            return;
        };
        let fate = self.random.below(20);
        if fate == 0 {
            node.unknown = Some((draft, None));
            return;
        }
        let generation = self.row.generation;
        let told = self.row.exchange(&draft.ask, u64::MAX, self.now, true);
        if self.row.generation != generation {
            (self.admitted, self.open, self.untold, self.unnoted) = (0, 0, 0, 0);
        }
        if fate == 1 {
            let granted = Granted {
                generation: told.row.generation,
                amount: told.granted,
            };
            node.unknown = Some((draft, Some(granted)));
            return;
        }
        // Requests go on while the answer is under way.
        let cost = 1 + self.random.below(5);
        self.admitted += node.decide(cost, false, self.now);
        self.settle(node);
        node.hear(&draft, &told, self.now);
    }
}

impl World {
    /// Says whether nothing of what the node knew is lost.
    fn kill(&mut self, node: &mut Node, with_its_machine: bool) -> bool {
        let exact = node.unnoted == 0 && !with_its_machine;
        self.unnoted += node.unnoted;
        if with_its_machine {
            self.untold += node.returned;
            *node = Node::start(self.now);
        } else {
            node.die(&mut self.row, self.now);
        }
        exact
    }

    /// Something was used less than was thought.
    fn settle(&mut self, node: &mut Node) {
        let running = !self.row.is_over(self.now);
        if running && node.cell.is_some_and(|cell| cell.0[0] == self.row.ends) {
            let most = self.random.below(15);
            let back = node.give_back(most);
            self.admitted -= back;
            if node.cell.and_then(Cell::headroom).is_none() {
                // What comes back before it is known what there is stays counted if it was told.
                self.untold += back;
                self.lost |= back > 0;
            }
        }
    }
}

/// Says how many nodes died of whose chunks nothing was lost.
fn run(seed: u64, trouble: bool) -> u64 {
    let mut random = Random(seed);
    let start = 20_000 * 24 * HOUR + random.below(24 * HOUR);
    let mut world = World {
        random,
        now: Timestamp::from_nanos(start),
        row: Row::default(),
        admitted: 0,
        open: 0,
        lost: false,
        untold: 0,
        unnoted: 0,
    };
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(world.now)).collect();
    let (mut died, mut survived) = (false, 0);
    for step in 0..STEPS {
        let place = usize::try_from(world.random.below(3)).unwrap();
        let node = &mut nodes[place];
        match world.random.below(100) {
            0 if trouble => {
                let exact = world.kill(node, seed.is_multiple_of(2));
                died |= !exact;
                survived += u64::from(exact);
            }
            1 if trouble => {
                // Let through without the ledger, in the period that is counted.
                let open = node.decide(1 + world.random.below(9), true, world.now);
                let running = !world.row.is_over(world.now);
                let same = node.cell.is_some_and(|cell| cell.0[0] == world.row.ends);
                if running && same {
                    world.admitted += open;
                    world.open += open;
                } else if open > 0 {
                    world.untold += node.returned;
                    *node = Node::start(world.now);
                    died = true;
                }
            }
            2 => world.now = world.now.saturating_add(u128::from(HOUR / 2)),
            3..=6 => world.settle(node),
            7..=20 => {
                world.now = world.now.saturating_add(300_000_000);
                if trouble {
                    world.exchange(node, Why::Look);
                }
            }
            21..=40 => {
                if trouble {
                    world.exchange(node, Why::Asked);
                } else if let Some(draft) = node.draft(world.now, Why::Asked) {
                    let generation = world.row.generation;
                    let told = world.row.exchange(&draft.ask, u64::MAX, world.now, true);
                    if world.row.generation != generation {
                        (world.admitted, world.open) = (0, 0);
                    }
                    node.hear(&draft, &told, world.now);
                }
            }
            _ => {
                let cost = 1 + world.random.below(20);
                let before = node.cell.map_or(0, |cell| cell.0[0]);
                // A chunk is of the period that it was taken in.
                if before == world.row.ends {
                    world.admitted += node.decide(cost, false, world.now);
                } else {
                    node.decide(cost, false, world.now);
                }
            }
        }
        let World {
            row, admitted, open, ..
        } = &world;
        assert!(row.used <= row.mark, "seed {seed}, step {step}: {row:?}");
        if !row.is_over(world.now) {
            assert!(
                *admitted <= LIMIT + open && admitted.saturating_sub(*open) <= row.mark,
                "seed {seed}, step {step}: {admitted} let through, {open} of them openly: {row:?}"
            );
        }
    }
    if world.row.is_over(world.now) {
        return 0;
    }
    for node in &mut nodes {
        world.lost |= node.find_out();
        if let Some(draft) = node.draft(world.now, Why::Ending) {
            world.row.exchange(&draft.ask, u64::MAX, world.now, true);
        }
    }
    let World { row, admitted, .. } = &world;
    if died || world.lost {
        assert!(
            row.used <= *admitted + world.untold && *admitted <= row.mark + world.unnoted,
            "seed {seed}: {admitted} let through: {row:?}"
        );
        return 0;
    }
    assert_eq!((row.used, row.mark), (*admitted, *admitted), "seed {seed}");
    survived
}

#[test]
fn what_lies_idle_is_given_back_after_half_a_minute() {
    let at = |seconds: u64| Timestamp::from_nanos(500 * 24 * HOUR + seconds * 1_000_000_000);
    let (mut node, mut row) = (Node::start(at(0)), Row::default());
    node.account.wanted = true;
    node.account.needs = 1;
    let say = |node: &mut Node, row: &mut Row, now: Timestamp, why: Why| {
        let draft = node.draft(now, why)?;
        let told = row.exchange(&draft.ask, u64::MAX, now, true);
        node.hear(&draft, &told, now);
        Some(draft.ask.gives)
    };
    assert_eq!(say(&mut node, &mut row, at(0), Why::Asked), Some(0));
    assert_eq!(node.decide(1, false, at(1)), 1);
    assert_eq!(say(&mut node, &mut row, at(2), Why::Look), Some(0));
    let held = row.mark - row.used;
    assert!(held > 0);
    assert_eq!(say(&mut node, &mut row, at(32), Why::Look), None);
    assert_eq!(say(&mut node, &mut row, at(33), Why::Look), Some(held));
    assert_eq!((row.mark, row.used), (1, 1));
    // It has nothing left to spend, and asks again.
    assert_eq!(node.decide(1, false, at(34)), 0);
    assert_eq!(say(&mut node, &mut row, at(34), Why::Asked), Some(0));
    assert_eq!(node.decide(1, false, at(34)), 1);
}

#[test]
fn a_clock_that_is_set_back_leaves_nothing_untold() {
    let at = |seconds: u64| Timestamp::from_nanos(500 * 24 * HOUR + seconds * 1_000_000_000);
    let (mut node, mut row) = (Node::start(at(100)), Row::default());
    node.account.wanted = true;
    node.account.needs = 1;
    for (now, why, used) in [
        (100, Why::Asked, 0),
        (102, Why::Look, 1),
        (42, Why::Look, 2),
        (44, Why::Look, 3),
    ] {
        let draft = node.draft(at(now), why).unwrap();
        let told = row.exchange(&draft.ask, u64::MAX, at(now), true);
        node.hear(&draft, &told, at(now));
        assert_eq!(row.used, used, "at {now}");
        assert_eq!(node.decide(1, false, at(now)), 1);
    }
}

#[test]
fn what_a_counter_begins_with_is_not_owed_by_a_fallback() {
    let now = Timestamp::from_nanos(500 * 24 * HOUR);
    let mut node = Node::start(now);
    let terms = Terms {
        room: LIMIT - 100,
        ..node.account.terms.clone()
    };
    node.account = Account::new(node.account.subject.clone(), terms, true, true, now);
    // A hundred were used of what it replaces, and five let through without the ledger.
    node.cell = Some(Cell([501 * 24 * HOUR, 105, 0]));
    let draft = node.draft(now, Why::Ending).unwrap();
    let mut row = Row::default();
    row.exchange(&draft.ask, u64::MAX, now, true);
    assert_eq!((draft.ask.spent, row.used, row.mark), (5, 105, 105));
    // In the next period nothing of that counts.
    let next = Timestamp::from_nanos(501 * 24 * HOUR);
    node.cell = Some(Cell([502 * 24 * HOUR, 105, 0]));
    let draft = node.draft(next, Why::Ending).unwrap();
    let mut row = Row::default();
    row.exchange(&draft.ask, u64::MAX, next, true);
    assert_eq!((draft.ask.spent, row.used, row.mark), (105, 105, 105));
}

#[test]
fn nothing_is_over_and_nothing_is_missing_whatever_happens() {
    let survived: u64 = (0..RUNS).map(|seed| run(seed, true)).sum();
    assert!(survived > 20, "{survived}");
}

#[test]
fn nothing_is_lost_if_nothing_happens() {
    for seed in 0..RUNS {
        run(seed, false);
    }
}
