//! Requests with a key, as several nodes carry them out through a slot: each is carried out once and answered alike for as
//! long as its key is kept, and each misfortune costs at most one time more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;

use tollgate_counters::shared::call::Micros;
use tollgate_counters::shared::once::{Act, KeyName, Question, Room, Said};
use tollgate_counters::shared::slot::{Bug, Slot};

const START: Micros = 1_000_000_000_000;
const HOLD: Micros = 10_000_000;
const HOUR: Micros = 3_600_000_000;
const ROOM: Room = Room {
    most: 1_000,
    kept: HOUR,
};

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A request that some node has claimed a key for.
struct UnderWay {
    key: u8,
    by: u64,
    /// When it is done.
    ends: Micros,
}

/// What has really become of a key.
#[derive(Default)]
struct Truth {
    carried_out: u32,
    misfortunes: u32,
    answers: Vec<Vec<u8>>,
    /// It was taken back, and not answered since.
    is_free: bool,
}

struct World {
    slot: Slot,
    now: Micros,
    next: u64,
    under_way: Vec<UnderWay>,
    truths: BTreeMap<u8, Truth>,
}

impl World {
    fn ask(&mut self, key: u8, by: u64, act: Act) -> Said {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&by.to_be_bytes());
        let question = Question {
            not_after: u64::MAX,
            heard: [0; 2],
            key: KeyName([key; 16]),
            by: token,
            act,
            room: ROOM,
        };
        self.slot.remember(0, self.now, &question).said
    }

    fn arrive(&mut self, key: u8, takes: Micros) -> Result<(), String> {
        self.next += 1;
        let (by, claim) = (self.next, claim(key));
        let said = self.ask(key, by, claim.clone());
        match said {
            Said::Done | Said::Freed => {
                let truth = self.truths.entry(key).or_default();
                // Whoever has died with it has left nothing that says so.
                let is_told = (said == Said::Freed) == truth.is_free || truth.misfortunes > 0;
                if !is_told {
                    return Err(format!("{said:?}, but free is {}", truth.is_free));
                }
                // A reply that was lost is asked for again.
                if by.is_multiple_of(7) && self.ask(key, by, claim) != said {
                    return Err("its own claim is another's".to_owned());
                }
                let ends = self.now + takes;
                self.under_way.push(UnderWay { key, by, ends });
            }
            Said::Answered(lasts, answer) | Said::AnsweredAnew(lasts, answer) => {
                let truth = self.truths.entry(key).or_default();
                if lasts > HOUR || !truth.answers.contains(&answer) {
                    return Err(format!("{answer:?} was never answered"));
                }
            }
            Said::Busy if self.under_way.iter().any(|under_way| under_way.key == key) => {}
            // Somebody has died with it.
            Said::Busy if self.truths.get(&key).is_some_and(|truth| truth.misfortunes > 0) => {}
            said => return Err(format!("{said:?}")),
        }
        Ok(())
    }

    fn finish(&mut self) {
        let now = self.now;
        let (done, rest) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|under_way: &UnderWay| under_way.ends <= now);
        self.under_way = rest;
        for UnderWay { key, by, .. } in done {
            let answer = by.to_be_bytes().to_vec();
            let truth = self.truths.entry(key).or_default();
            truth.carried_out += 1;
            truth.answers.push(answer.clone());
            truth.is_free = false;
            let keep = Act::Keep {
                print: [key; 32],
                answer,
                lasts: HOUR,
            };
            self.ask(key, by, keep);
        }
    }

    /// What was carried out is taken back, if it was answered and nobody is at it again.
    fn free(&mut self, key: u8) {
        if self.ask(key, 0, Act::Free) == Said::Done {
            let truth = self.truths.entry(key).or_default();
            truth.carried_out = 0;
            truth.answers.clear();
            truth.is_free = true;
        }
    }

    /// A node dies with what it has under way, before or after it was carried out.
    fn die(&mut self, dice: &mut Dice) {
        if self.under_way.is_empty() {
            return;
        }
        let which = usize::try_from(dice.below(self.under_way.len() as u64)).unwrap();
        let UnderWay { key, .. } = self.under_way.swap_remove(which);
        let truth = self.truths.entry(key).or_default();
        truth.misfortunes += 1;
        truth.carried_out += u32::try_from(dice.below(2)).unwrap();
    }
}

fn claim(key: u8) -> Act {
    Act::Claim {
        print: [key; 32],
        hold: HOLD,
    }
}

fn run(seed: u64, bug: Option<Bug>) -> Result<u32, String> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut slot = Slot::installed(0);
    slot.bug = bug;
    let mut world = World {
        slot,
        now: START,
        next: 0,
        under_way: Vec::new(),
        truths: BTreeMap::new(),
    };
    let mut again = 0;
    for _ in 0..150 {
        world.now += dice.below(HOLD / 4);
        world.finish();
        match dice.below(13) {
            0 => world.die(&mut dice),
            1 => {
                // It is refused after all, and nothing was carried out.
                if let Some(UnderWay { key, by, .. }) = world.under_way.pop() {
                    world.ask(key, by, Act::Forget);
                }
            }
            12 => {
                let key = u8::try_from(dice.below(5)).unwrap();
                world.free(key);
            }
            2 => {
                let key = u8::try_from(dice.below(5)).unwrap();
                let other = Act::Claim {
                    print: [99; 32],
                    hold: 0,
                };
                let known = world
                    .truths
                    .get(&key)
                    .is_some_and(|truth| !truth.answers.is_empty());
                if known && world.ask(key, 0, other) != Said::Other {
                    return Err("another request was taken for the same".to_owned());
                }
            }
            _ => {
                let (key, takes) = (dice.below(5), dice.below(HOLD / 2));
                world.arrive(u8::try_from(key).unwrap(), takes)?;
            }
        }
        for (key, truth) in &world.truths {
            if truth.carried_out > 1 + truth.misfortunes {
                return Err(format!("{key} was carried out {} times", truth.carried_out));
            }
            again += u32::from(truth.carried_out > 1);
        }
    }
    Ok(again)
}

#[test]
fn a_request_is_carried_out_once_and_once_more_for_each_node_that_dies_with_it() {
    let mut again = 0;
    for seed in 1..=3_000 {
        again += run(seed, None).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
    assert!(again > 0, "no death has cost anything");
}

#[test]
fn a_mistake_is_found() {
    let found = (1..=100).find(|seed| run(*seed, Some(Bug::CarriedOutTwice)).is_err());
    assert!(found.is_some());
}
