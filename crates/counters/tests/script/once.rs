//! The script that remembers keys does what the slot in Rust does.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redis::ConnectionLike;
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{ONCE, Script, decode_question, encode_question};
use tollgate_counters::shared::call::{Call, Kind, Micros, Reply};
use tollgate_counters::shared::once::{Act, KeyName, Question, Room};
use tollgate_counters::shared::slot::Slot;

use crate::servers::Server;
use crate::store::{SECOND, START, Store, need, owner_of, subject, tell, timed};

/// Little of it, so that keys make way.
const ROOM: Room = Room {
    most: 3,
    kept: 4 * SECOND,
};

#[derive(Debug, Clone)]
enum Step {
    Pass(Micros),
    /// A call that charges, which notes a loss.
    Call,
    Ask(u8, u8, Act),
    /// One that comes too late.
    AskLate(u8, u8),
    Owner(u64),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, by) = (0..6_u8, 0..3_u8);
    let lasts = || prop_oneof![0..SECOND / 4, 0..3 * SECOND, Just(0)];
    let print = || (0..2_u8).prop_map(|print| [print; 32]);
    let answer = prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 1..40)];
    let act = prop_oneof![
        6 => (print(), lasts()).prop_map(|(print, hold)| Act::Claim { print, hold }),
        4 => (print(), answer, lasts()).prop_map(|(print, answer, lasts)| Act::Keep { print, answer, lasts }),
        1 => Just(Act::Forget),
        2 => Just(Act::Free),
    ];
    prop_oneof![
        4 => prop_oneof![0..SECOND / 4, 0..2 * SECOND, Just(9_999), Just(10_000)].prop_map(Step::Pass),
        2 => Just(Step::Call),
        12 => (key.clone(), by.clone(), act).prop_map(|(key, by, act)| Step::Ask(key, by, act)),
        1 => (key, by).prop_map(|(key, by)| Step::AskLate(key, by)),
        1 => (0..2_u64).prop_map(Step::Owner),
        1 => Just(Step::Flush),
    ]
}

struct World {
    slot: Slot,
    now: Micros,
    owner: u64,
    last: [Micros; 2],
}

impl World {
    fn call(&mut self, store: &mut Store) -> Result<(), TestCaseError> {
        let subject = subject(1, Kind::Window, 20, 20, SECOND);
        let call = Call {
            heard: self.last,
            ..need(&[subject], 1, Mode::Enforce, Commit::Charge)
        };
        let expected = self.slot.run(self.owner, self.now, &call);
        prop_assert_eq!(store.run(self.owner, self.now, &call), Ok(expected.clone()));
        if let Reply::Done(done) = expected {
            self.last = [done.began, done.now];
        }
        Ok(())
    }

    fn ask(&mut self, store: &mut Store, script: &Script, question: &Question) -> Result<(), TestCaseError> {
        let expected = self.slot.remember(self.owner, self.now, question);
        let owner = owner_of(self.owner);
        let mut parts = encode_question(question, &owner, &store.keys, &store.tag, store.tag.slot());
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
        parts.arg((self.now as f64).to_le_bytes().as_slice());
        let reply = store.connection.req_command(&script.call(&parts)).unwrap();
        prop_assert_eq!(decode_question(reply), Ok(expected), "{:?}", question);
        Ok(())
    }
}

#[test]
fn the_script_remembers_keys_as_the_slot_does() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let script = timed(&ONCE, 7);
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
        let mut world = World {
            slot: Slot::default(),
            now: START,
            owner: 0,
            last: [0; 2],
        };
        world.call(store)?;
        for step in steps {
            match step {
                Step::Pass(time) => world.now += time,
                Step::Owner(owner) => world.owner = owner,
                Step::Flush => {
                    world.slot.flush();
                    store.flush();
                }
                Step::Call => world.call(store)?,
                Step::Ask(key, by, act) => {
                    let question = question(key, by, act, world.last);
                    world.ask(store, &script, &question)?;
                }
                Step::AskLate(key, by) => {
                    let late = Question {
                        not_after: world.now - 1,
                        ..question(key, by, Act::Forget, world.last)
                    };
                    world.ask(store, &script, &late)?;
                }
            }
        }
        for (key, left) in store.expiries() {
            prop_assert!(left > 0, "{} does not expire", key);
        }
        let keys = redis::cmd("HLEN").arg(store.keys.once(&store.tag)).clone();
        let keys: u64 = keys.query(&mut store.connection).unwrap();
        prop_assert!(keys <= ROOM.most, "{} keys", keys);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}\n{runner}");
    }
}

fn question(key: u8, by: u8, act: Act, heard: [Micros; 2]) -> Question {
    Question {
        not_after: (1 << 53) - 1,
        heard,
        key: KeyName([key; 16]),
        by: [by; 16],
        act,
        room: ROOM,
    }
}
