//! The script that keeps records does what the slot in Rust does, among calls that charge.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use redis::ConnectionLike;
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{RECORD, Script, decode_errand, encode_errand};
use tollgate_counters::shared::call::{Kind, Micros, Reply, State, Subject};
use tollgate_counters::shared::record::{Act, Back, Errand, RecordName};
use tollgate_counters::shared::slot::Slot;

use crate::servers::Server;
use crate::store::{SECOND, START, Store, need, owner_of, subject, tell, timed};

const KINDS: [Kind; 6] = [
    Kind::Token,
    Kind::Window,
    Kind::First,
    Kind::Quota,
    Kind::Sliding,
    Kind::Log,
];

#[derive(Debug, Clone)]
enum Step {
    Pass(Micros),
    Charge(Index, u64),
    Open(u8, Option<bool>, Micros, u8),
    Claim(u8, u8, Micros),
    Release(u8, u8),
    Settle(u8, u8, Vec<(Index, u64)>),
    Owner(u64),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let (record, by) = (0..3_u8, 0..2_u8);
    let backs = prop::collection::vec((any::<Index>(), 0..12_u64), 0..4);
    prop_oneof![
        4 => prop_oneof![0..SECOND / 4, 0..2 * SECOND, Just(9_999), Just(10_000)].prop_map(Step::Pass),
        8 => (any::<Index>(), 1..8_u64).prop_map(|(which, cost)| Step::Charge(which, cost)),
        4 => (record.clone(), prop::option::weighted(0.8, prop::bool::weighted(0.9)), 0..2 * SECOND, 0..3_u8)
            .prop_map(|(record, right, lasts, text)| Step::Open(record, right, lasts, text)),
        4 => (record.clone(), by.clone(), 0..SECOND).prop_map(|(record, by, hold)| Step::Claim(record, by, hold)),
        1 => (record.clone(), by.clone()).prop_map(|(record, by)| Step::Release(record, by)),
        6 => (record, by, backs).prop_map(|(record, by, backs)| Step::Settle(record, by, backs)),
        1 => (0..2_u64).prop_map(Step::Owner),
        1 => Just(Step::Flush),
    ]
}

struct World {
    slot: Slot,
    now: Micros,
    owner: u64,
    last: [Micros; 2],
    subjects: Vec<Subject>,
    charged: Vec<Back>,
}

impl World {
    /// What both say to a charge.
    fn charge(&mut self, store: &mut Store, which: Index, cost: u64) -> Result<(), TestCaseError> {
        let subject = which.get(&self.subjects).clone();
        let call = tollgate_counters::shared::call::Call {
            heard: self.last,
            ..need(
                std::slice::from_ref(&subject),
                cost,
                Mode::Enforce,
                Commit::Charge,
            )
        };
        let expected = self.slot.run(self.owner, self.now, &call);
        let reply = store.run(self.owner, self.now, &call);
        prop_assert_eq!(reply, Ok(expected.clone()));
        if let Reply::Done(done) = expected {
            self.last = [done.began, done.now];
            let State([first, second, _]) = done.verdicts[0][0].state;
            let end = if subject.terms.kind == Kind::Log {
                second
            } else {
                first
            };
            self.charged.push(Back {
                name: subject.name,
                kind: subject.terms.kind,
                window: subject.terms.window,
                end,
                amount: cost,
            });
        }
        Ok(())
    }

    /// What is done with a record, if that is a step's affair.
    fn act(&self, step: &Step) -> Option<(u8, Act)> {
        let by = |by: u8| [by; 16];
        Some(match step {
            Step::Open(record, right, lasts, text) => {
                let began = right.map(|right| if right { self.last[0] } else { self.last[0] + 1 });
                let open = Act::Open {
                    began,
                    until: self.now + lasts,
                    text: vec![*text; 5],
                    listed: vec![*text; usize::from(*text)],
                };
                (*record, open)
            }
            Step::Claim(record, claimant, hold) => {
                let (by, hold) = (by(*claimant), *hold);
                (*record, Act::Claim { by, hold })
            }
            Step::Release(record, claimant) => (*record, Act::Release { by: by(*claimant) }),
            Step::Settle(record, claimant, backs) if !self.charged.is_empty() => {
                let back = |(which, amount): &(Index, u64)| {
                    // Recent ones are more interesting.
                    let age = which.index(self.charged.len()) / 2;
                    Back {
                        amount: *amount,
                        ..self.charged[self.charged.len() - 1 - age]
                    }
                };
                let backs = backs.iter().map(back).filter(|back| back.kind != Kind::Token);
                let settle = Act::Settle {
                    by: by(*claimant),
                    backs: backs.collect(),
                    answer: (b"settled".to_vec(), SECOND * 3_600),
                };
                (*record, settle)
            }
            _ => return None,
        })
    }

    fn attend(
        &mut self,
        store: &mut Store,
        script: &Script,
        record: u8,
        act: Act,
    ) -> Result<(), TestCaseError> {
        let errand = Errand {
            not_after: (1 << 53) - 1,
            heard: self.last,
            record: RecordName([record; 16]),
            act,
        };
        let expected = self.slot.attend(self.owner, self.now, &errand);
        let owner = owner_of(self.owner);
        let mut parts = encode_errand(&errand, &owner, &store.keys, &store.tag, store.tag.slot());
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
        parts.arg((self.now as f64).to_le_bytes().as_slice());
        let reply = store.connection.req_command(&script.call(&parts)).unwrap();
        prop_assert_eq!(decode_errand(reply), Ok(expected.clone()), "{:?}", errand);
        Ok(())
    }
}

#[test]
fn the_script_keeps_records_as_the_slot_does() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let script = timed(&RECORD, 5);
    tell(&mut store.connection, &script);
    let cases = ProptestConfig::default().cases.max(1_500);
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let store = std::cell::RefCell::new(store);
    let outcome = runner.run(&prop::collection::vec(step(), 1..60), |steps| {
        let store = &mut *store.borrow_mut();
        store.flush();
        let kinds = KINDS.iter().zip(1..);
        let mut world = World {
            slot: Slot::default(),
            now: START,
            owner: 0,
            last: [0; 2],
            subjects: kinds
                .map(|(kind, number)| subject(number, *kind, 20, 20, SECOND))
                .collect(),
            charged: Vec::new(),
        };
        for step in &steps {
            match step {
                Step::Pass(time) => world.now += time,
                Step::Owner(owner) => world.owner = *owner,
                Step::Flush => {
                    world.slot.flush();
                    store.flush();
                }
                Step::Charge(which, cost) => world.charge(store, *which, *cost)?,
                step => {
                    if let Some((record, act)) = world.act(step) {
                        world.attend(store, &script, record, act)?;
                    }
                }
            }
        }
        for (key, left) in store.expiries() {
            prop_assert!(left > 0, "{} does not expire", key);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}\n{runner}");
    }
}
