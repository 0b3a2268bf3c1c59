//! Random calls on the slot in Rust and on the script, through every misfortune: the replies are the same.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use redis::Value;
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::decode;
use tollgate_counters::shared::call::{
    Call, Kind, LeaseId, Micros, Name, Need, Part, Reply, Return, Settlement, Subject, Terms, Want,
};
use tollgate_counters::shared::slot::Slot;

use crate::servers::Server;
use crate::store::{SECOND, START, Store, owner_of};

const DAY: Micros = 86_400 * SECOND;
const MOST: u64 = 999_999_999_999_999;
const COUNTERS: usize = 5;
const KINDS: [Kind; 7] = [
    Kind::Token,
    Kind::Leaky,
    Kind::Window,
    Kind::First,
    Kind::Quota,
    Kind::Sliding,
    Kind::Log,
];

/// A counter and the limits that policies have had on it.
#[derive(Debug, Clone)]
struct Counter {
    kind: Kind,
    window: Micros,
    limits: Vec<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct Step {
    before: Before,
    clock: Clock,
    /// How long before the store ran it a call was to be run at the latest; mostly it is in time.
    late: Option<u8>,
    /// How much later than the last call was run the caller says that it heard of the slot, if it says so.
    heard: Option<Micros>,
    /// The call is of the kind that the script has a short way for.
    plain: bool,
    asked: Vec<Asked>,
    returns: Vec<Returned>,
    settlements: Vec<LetThrough>,
    needs: Vec<Needed>,
    wants: Vec<Wanted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Flush,
    Owner(u64),
}

#[derive(Debug, Clone, Copy)]
enum Clock {
    Ahead(Micros),
    Windows(Index, u8, i64),
    /// To the end of a window of the epoch's, or of a later one.
    Boundary(Index, u64, i64),
    Back(Micros),
}

/// A subject: which counter, by which of its limits and revision, and what it replaces.
#[derive(Debug, Clone)]
struct Asked {
    counter: usize,
    limit: Index,
    revision: u64,
    days_old: u64,
    formers: Vec<Index>,
    /// How long ago one of another slot was left that it replaces.
    left_ago: Option<i64>,
}

#[derive(Debug, Clone)]
struct Returned {
    lease: Index,
    /// Another counter than it was lent from.
    elsewhere: Option<Index>,
    foreign: bool,
    unspent: Amount,
    spent_ago: i64,
}

#[derive(Debug, Clone)]
struct LetThrough {
    subject: Index,
    owed: Amount,
    drained: Amount,
    /// How many hundredths of the time in which the bucket refills ago, and how much more.
    since_ago: (u64, i64),
    nodes: u64,
}

#[derive(Debug, Clone)]
struct Needed {
    commit: Commit,
    parts: Vec<NeededPart>,
}

#[derive(Debug, Clone, Copy)]
struct NeededPart {
    subject: Index,
    /// A limit and capacity of its own.
    own: Option<(u64, u64)>,
    cost: Amount,
    mode: Mode,
}

#[derive(Debug, Clone)]
struct Wanted {
    subject: Index,
    amount: Amount,
    hold: Micros,
    node: u64,
    soft: bool,
    needed: bool,
}

/// A number by itself or by another one.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Exactly(u64),
    /// So many hundredths, and so much more.
    Share(u64, i64),
}

impl Amount {
    fn of(self, whole: u64) -> u64 {
        match self {
            Self::Exactly(number) => number,
            Self::Share(hundredths, more) => {
                let share = u128::from(whole) * u128::from(hundredths) / 100;
                u64::try_from(share)
                    .unwrap()
                    .saturating_add_signed(more)
                    .min(2 * MOST)
            }
        }
    }
}

fn number(most: u64) -> impl Strategy<Value = u64> {
    let any_size = (0..=63_u32, any::<u64>()).prop_map(move |(bits, number)| (number >> bits).min(most));
    prop_oneof![
        4 => (1..=12_u64).prop_map(move |number| number.min(most)),
        1 => Just(0),
        1 => Just(most),
        2 => any_size
    ]
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        6 => Just(Amount::Exactly(1)),
        1 => Just(Amount::Exactly(0)),
        1 => number(MOST).prop_map(Amount::Exactly),
        4 => (0..=120_u64, -1..=1_i64).prop_map(|(share, more)| Amount::Share(share, more)),
        2 => (-1..=1_i64).prop_map(|more| Amount::Share(100, more)),
    ]
}

fn counter() -> impl Strategy<Value = Counter> {
    let window = prop_oneof![
        Just(1_000),
        Just(SECOND),
        Just(60 * SECOND),
        Just(DAY),
        Just(366 * DAY),
        1_000..366 * DAY,
        (10..40_u32, 0..1_000_u64).prop_map(|(bits, more)| (1 << bits) + more),
    ];
    let limits = prop::collection::vec((number(MOST), prop::option::of(number(MOST))), 1..4);
    (0..KINDS.len(), window, limits).prop_map(|(kind, window, limits)| {
        let kind = KINDS[kind];
        let capacity = |limit: u64, burst: Option<u64>| burst.filter(|_| kind.is_bucket()).unwrap_or(limit);
        let limits = limits
            .into_iter()
            .map(|(limit, burst)| (limit, capacity(limit, burst)));
        Counter {
            kind,
            window,
            limits: limits.collect(),
        }
    })
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![
        4 => prop_oneof![Just(0), 1..1_000_u64, 1_000..2 * SECOND, Just(100_000)].prop_map(Clock::Ahead),
        4 => (any::<Index>(), prop_oneof![Just(100), Just(200), 1..=99_u8], -1..=1_i64)
            .prop_map(|(of, share, more)| Clock::Windows(of, share, more)),
        1 => (any::<Index>(), 1..3_u64, prop_oneof![Just(0), -1..=1_i64])
            .prop_map(|(of, which, more)| Clock::Boundary(of, which, more)),
        1 => (300 * SECOND..700 * SECOND).prop_map(Clock::Ahead),
        1 => (DAY..400 * DAY).prop_map(Clock::Ahead),
        1 => prop_oneof![1..200_000_u64, 1..=10 * SECOND].prop_map(Clock::Back),
        1 => prop_oneof![Just(10 * SECOND), Just(10 * SECOND + 1), 10 * SECOND..2 * DAY].prop_map(Clock::Back),
    ]
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let each = (
        any::<Index>(),
        prop_oneof![3 => Just(0), 5 => 1..4_u64],
        prop_oneof![20 => Just(0), 2 => Just(1), 1 => Just(2)],
        prop::collection::vec(any::<Index>(), 0..3),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.1, prop_oneof![Just(0), -100_000..2_000_000_i64]),
    );
    let all = prop::collection::vec(each, COUNTERS);
    let chosen = prop::sample::subsequence((0..COUNTERS).collect::<Vec<_>>(), 1..=COUNTERS).prop_shuffle();
    (chosen, all).prop_map(|(chosen, all)| {
        let chosen = chosen.into_iter().zip(all);
        chosen
            .map(
                |(counter, (limit, revision, days_old, formers, replaces, left_ago))| Asked {
                    counter,
                    limit,
                    revision,
                    days_old,
                    formers: if replaces { formers } else { Vec::new() },
                    left_ago,
                },
            )
            .collect()
    })
}

fn let_through() -> impl Strategy<Value = Vec<LetThrough>> {
    let one = (
        any::<Index>(),
        amount(),
        amount(),
        (0..300_u64, -2_000..2_000_i64),
        prop_oneof![1..4_u64, 1..1_000_u64],
    )
        .prop_map(|(subject, owed, drained, since_ago, nodes)| LetThrough {
            subject,
            owed,
            drained,
            since_ago,
            nodes,
        });
    prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(one, 1..3),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let before = prop_oneof![
        20 => Just(Before::Nothing),
        1 => Just(Before::Flush),
        1 => (0..3_u64).prop_map(Before::Owner),
    ];
    let late = prop_oneof![12 => Just(None), 1 => (0..3_u8).prop_map(Some)];
    let heard = prop_oneof![
        48 => Just(Some(0)),
        16 => Just(None),
        1 => prop_oneof![9_998..=10_001_u64, 0..100_000_u64].prop_map(Some),
    ];
    let returned = (
        any::<Index>(),
        prop::option::weighted(0.1, any::<Index>()),
        prop::bool::weighted(0.1),
        amount(),
        prop_oneof![Just(0), -100_000..2_000_000_i64],
    )
        .prop_map(|(lease, elsewhere, foreign, unspent, spent_ago)| Returned {
            lease,
            elsewhere,
            foreign,
            unspent,
            spent_ago,
        });
    let mode = prop_oneof![5 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 2 => Just(Mode::Soft)];
    let own = prop::option::weighted(0.15, (number(MOST), number(MOST)));
    let part = (any::<Index>(), own, amount(), mode).prop_map(|(subject, own, cost, mode)| NeededPart {
        subject,
        own,
        cost,
        mode,
    });
    let commit = prop_oneof![5 => Just(Commit::Charge), 1 => Just(Commit::DryRun)];
    let needed =
        (commit, prop::collection::vec(part, 1..5)).prop_map(|(commit, parts)| Needed { commit, parts });
    let wanted = (
        any::<Index>(),
        amount(),
        prop_oneof![0..=1_200_000_u64, Just(50_000)],
        1..4_u64,
        prop::bool::weighted(0.15),
    )
        .prop_map(|(subject, amount, hold, node, soft)| Wanted {
            subject,
            amount,
            hold,
            node,
            soft,
            needed: hold % 2 == 0,
        });
    // Many nodes, all of one counter.
    let crowd = (any::<Index>(), 1..=40_u64, 0..=1_200_000_u64).prop_map(|(subject, nodes, hold)| {
        let one = |node: u64| Wanted {
            subject,
            amount: Amount::Exactly(1 + node % 3),
            hold: hold.saturating_sub(node * 7919 % 100_000),
            node: 100 + node,
            soft: node.is_multiple_of(9),
            needed: node.is_multiple_of(4),
        };
        (1..=nodes).map(one).collect::<Vec<_>>()
    });
    let wants = prop_oneof![
        12 => prop::collection::vec(wanted, 0..4),
        1 => crowd,
    ];
    (
        before,
        clock(),
        late,
        heard,
        prop::bool::weighted(0.4),
        asked(),
        prop::collection::vec(returned, 0..4),
        let_through(),
        prop::collection::vec(needed, 0..4),
        wants,
    )
        .prop_map(
            |(before, clock, late, heard, plain, asked, returns, settlements, needs, wants)| Step {
                before,
                clock,
                late,
                heard,
                plain,
                asked,
                returns,
                settlements,
                needs,
                wants,
            },
        )
}

fn name(asked: &Asked) -> Name {
    Name([u8::try_from(asked.counter).unwrap(); 16])
}

/// How much changes from step to step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Wild,
    /// The policies stay as they are.
    Steady,
    /// The same counters again and again, in little time.
    Calm,
}

impl Course {
    fn smooth(self, steps: &mut [Step]) {
        let first = steps[0].asked.clone();
        for step in steps {
            if self != Self::Wild {
                for asked in &mut step.asked {
                    asked.limit = first[0].limit;
                    asked.revision = 1;
                }
            }
            if self == Self::Calm {
                step.asked.clone_from(&first);
                step.plain = true;
                if let Clock::Ahead(time) = step.clock {
                    step.clock = Clock::Ahead(time % 1_000);
                }
            }
        }
    }
}

/// A lease that was asked for, and what came of it.
#[derive(Debug, Clone, Copy)]
struct Lease {
    counter: usize,
    id: LeaseId,
    amount: u64,
}

struct World<'a> {
    counters: &'a [Counter],
    now: Micros,
    owner: u64,
    leases: Vec<Lease>,
    /// What was last heard of the slot.
    last: [Micros; 2],
}

impl World<'_> {
    fn pass(&mut self, clock: Clock) {
        self.now = match clock {
            Clock::Ahead(time) => self.now + time,
            Clock::Windows(of, share, more) => {
                let window = of.get(self.counters).window;
                (self.now + window * u64::from(share) / 100).saturating_add_signed(more)
            }
            Clock::Boundary(of, which, more) => {
                let window = of.get(self.counters).window;
                ((self.now / window + which) * window).saturating_add_signed(more)
            }
            Clock::Back(time) => self.now - time,
        };
    }

    fn terms(&self, asked: &Asked) -> Terms {
        let counter = &self.counters[asked.counter];
        let (limit, capacity) = *asked.limit.get(&counter.limits);
        let day = self.now / DAY * DAY - asked.days_old * DAY;
        Terms {
            kind: counter.kind,
            limit,
            capacity,
            window: counter.window,
            revision: asked.revision,
            period: match counter.kind {
                Kind::Quota => [day, day + DAY, day + 2 * DAY],
                _ => [0; 3],
            },
        }
    }

    /// A call with one need, of each subject in their order.
    fn plain_call(&self, step: &Step) -> Option<Call> {
        let costs = step.needs.first()?.parts.iter().map(|part| part.cost).cycle();
        let short = |asked: &&Asked| !matches!(self.counters[asked.counter].kind, Kind::Sliding | Kind::Log);
        let mut call = Call {
            not_after: u64::MAX,
            needs: vec![Need {
                commit: Commit::Charge,
                parts: Vec::new(),
            }],
            ..Call::default()
        };
        for ((subject, asked), cost) in step.asked.iter().filter(short).enumerate().zip(costs) {
            let terms = self.terms(asked);
            call.subjects.push(Subject {
                name: name(asked),
                terms,
                formers: Vec::new(),
                left: 0,
            });
            call.needs[0].parts.push(Part {
                subject,
                limit: terms.limit,
                capacity: terms.capacity,
                cost: cost.of(terms.capacity / 10).clamp(1, MOST),
                mode: Mode::Enforce,
            });
        }
        (!call.subjects.is_empty()).then_some(call)
    }

    /// What fallbacks let through.
    fn settlements(&self, step: &Step, subjects: &[Subject]) -> Vec<Settlement> {
        let settlements = step.settlements.iter().map(|one| {
            let subject = one.subject.index(subjects.len());
            let Terms {
                limit,
                capacity,
                window,
                ..
            } = subjects[subject].terms;
            let refill = u128::from(window) * u128::from(capacity) / u128::from(limit.max(1));
            let ago = u64::try_from(refill).unwrap_or(u64::MAX).min(DAY) / 100 * one.since_ago.0;
            let since = self.now.saturating_sub(ago);
            Settlement {
                subject,
                owed: one.owed.of(capacity).min(MOST),
                drained: one.drained.of(capacity).min(MOST),
                since: since.saturating_add_signed(one.since_ago.1),
                age: ago.saturating_add_signed(one.since_ago.1 / 2),
                nodes: one.nodes,
            }
        });
        settlements.collect()
    }

    fn call(&mut self, step: &Step) -> Call {
        if let Some(call) = self.plain_call(step).filter(|_| step.plain) {
            return call;
        }
        let subjects: Vec<Subject> = step
            .asked
            .iter()
            .map(|asked| Subject {
                name: name(asked),
                terms: self.terms(asked),
                formers: asked
                    .formers
                    .iter()
                    .map(|former| former.index(step.asked.len()))
                    .collect(),
                left: asked
                    .left_ago
                    .map_or(0, |ago| self.now.saturating_add_signed(-ago)),
            })
            .collect();
        let place = |counter: usize| step.asked.iter().position(|asked| asked.counter == counter);
        let mut returns = Vec::new();
        for given in &step.returns {
            if self.leases.is_empty() {
                continue;
            }
            // Recent ones are more interesting.
            let age = given.lease.index(self.leases.len());
            let lease = self.leases[self.leases.len() - 1 - age / 2];
            let elsewhere = given.elsewhere.map(|index| index.index(subjects.len()));
            let Some(subject) = elsewhere.or_else(|| place(lease.counter)) else {
                continue;
            };
            returns.push(Return {
                subject,
                lease: LeaseId {
                    node: lease.id.node + u64::from(given.foreign),
                    ..lease.id
                },
                unspent: given.unspent.of(lease.amount),
                last_spent: self.now.saturating_add_signed(-given.spent_ago),
            });
        }
        let needs = step.needs.iter().map(|need| Need {
            commit: need.commit,
            parts: need
                .parts
                .iter()
                .map(|part| {
                    let subject = part.subject.index(subjects.len());
                    let terms = &subjects[subject].terms;
                    let (limit, capacity) = part.own.unwrap_or((terms.limit, terms.capacity));
                    Part {
                        subject,
                        limit,
                        capacity,
                        cost: part.cost.of(capacity).min(MOST),
                        mode: part.mode,
                    }
                })
                .collect(),
        });
        let needs = needs.collect();
        let wants = step.wants.iter().map(|want| {
            let subject = want.subject.index(subjects.len());
            let lease = Lease {
                counter: step.asked[subject].counter,
                id: LeaseId {
                    node: want.node,
                    number: self.leases.len() as u64 + 1,
                },
                amount: want.amount.of(subjects[subject].terms.capacity).min(MOST),
            };
            self.leases.push(lease);
            let capacity = subjects[subject].terms.capacity;
            Want {
                subject,
                amount: lease.amount,
                hold: want.hold,
                lease: lease.id,
                // Now and then by a lesser limit than the subject's.
                most: match (want.soft, lease.id.number % 3) {
                    (true, _) => tollgate_counters::shared::call::MOST,
                    (false, 0) => capacity / 2,
                    (false, _) => capacity,
                },
                needed: want.needed,
            }
        });
        let wants = wants.collect();
        Call {
            not_after: step
                .late
                .map_or(u64::MAX, |early| self.now - u64::from(early) * 50_000),
            settlements: self.settlements(step, &subjects),
            subjects,
            returns,
            needs,
            wants,
            ..Call::default()
        }
    }

    /// Remembers what was really lent.
    fn hear(&mut self, reply: &Reply) {
        if let Reply::Done(done) = reply {
            self.last = [done.began, done.now];
            let asked = self.leases.len() - done.grants.len();
            for (lease, grant) in self.leases[asked..].iter_mut().zip(&done.grants) {
                lease.amount = grant.amount;
            }
        }
    }
}

#[test]
fn the_script_does_what_the_slot_does() {
    let server = Server::start();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: ProptestConfig::default().cases.max(4_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/script.txt"
        )))),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    });
    let course = prop_oneof![
        2 => Just(Course::Wild),
        2 => Just(Course::Steady),
        1 => Just(Course::Calm),
    ];
    let cases = (
        prop::collection::vec(counter(), COUNTERS),
        prop::collection::vec(step(), 1..40),
        any::<bool>(),
        course,
    );
    let store = RefCell::new(Store::timed(&server));
    // How many calls went the short way, which answers with whole counters.
    let short = Cell::new(0);
    let outcome = runner.run(&cases, |(counters, mut steps, installed, course)| {
        let store = &mut *store.borrow_mut();
        store.flush();
        let mut slot = if installed {
            Slot::installed(0)
        } else {
            Slot::default()
        };
        if installed {
            let sentinel = [&[0; 16], owner_of(0).as_str().as_bytes()].concat();
            let key = store.keys.sentinel(store.tag.slot());
            redis::cmd("SETEX")
                .arg(key)
                .arg(100)
                .arg(sentinel)
                .exec(&mut store.connection)
                .unwrap();
        }
        course.smooth(&mut steps);
        let mut world = World {
            counters: &counters,
            now: START,
            owner: 0,
            leases: Vec::new(),
            last: [0; 2],
        };
        for step in &steps {
            match step.before {
                Before::Nothing => {}
                Before::Owner(owner) => world.owner = owner,
                Before::Flush => {
                    slot.flush();
                    store.flush();
                }
            }
            world.pass(step.clock);
            let mut call = world.call(step);
            if let Some(later) = step.heard {
                call.heard = [world.last[0], world.last[1] + later];
            }
            let expected = slot.run(world.owner, world.now, &call);
            let reply = store.ask(world.owner, world.now, &call);
            prop_assert_eq!(
                decode(&call, &reply),
                Ok(expected.clone()),
                "{:?} {:?}",
                call,
                reply
            );
            if step.plain && is_stored(&reply, call.subjects.len()) {
                short.set(short.get() + 1);
            }
            world.hear(&expected);
        }
        for (key, left) in store.expiries() {
            prop_assert!(left > 0, "{} does not expire", key);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}\n{runner}");
    }
    assert!(short.get() > 500, "{short:?}");
}

fn is_stored(reply: &Value, counters: usize) -> bool {
    matches!(reply, Value::BulkString(bytes) if bytes.len() == 16 + 64 * counters)
}
