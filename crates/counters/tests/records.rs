//! Charges that may be given back in the shared store: whatever becomes of their records, what is let through satisfies
//! each limit, and without misfortunes nothing is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{
    Call, Kind, Micros, Name, Need, Part, Reply, Seen, State, Subject, Terms,
};
use tollgate_counters::shared::record::{Act, Back, Errand, RecordName, Said};
use tollgate_counters::shared::slot::{Bug, Slot};

const START: Micros = 1_000_000_000_000;
const WINDOW: Micros = 1_000_000;
const KINDS: [Kind; 5] = [Kind::Window, Kind::First, Kind::Quota, Kind::Sliding, Kind::Log];

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

/// What was let through, as it really was: where it lies, and how much it is by now.
struct Truth {
    at: Micros,
    lies: Vec<Micros>,
    amount: u64,
}

struct Reservation {
    record: RecordName,
    truth: usize,
    cost: u64,
    settled: bool,
}

struct World {
    kinds: Vec<Kind>,
    slot: Slot,
    earlier: Slot,
    owner: u64,
    now: Micros,
    limit: u64,
    truths: Vec<Truth>,
    reservations: Vec<Reservation>,
    /// A count that is kept elsewhere, and given back by whoever settles: a quota of the ledger.
    ledger: u64,
    misfortunes: bool,
}

impl World {
    fn subjects(&self) -> Vec<Subject> {
        let start = self.now / WINDOW * WINDOW;
        let subject = |(number, kind): (usize, &Kind)| Subject {
            name: Name([u8::try_from(number).unwrap(); 16]),
            terms: Terms {
                kind: *kind,
                limit: self.limit,
                capacity: self.limit,
                window: WINDOW,
                revision: 1,
                period: match kind {
                    Kind::Quota => [start, start + WINDOW, start + 2 * WINDOW],
                    _ => [0; 3],
                },
            },
            formers: Vec::new(),
            left: 0,
        };
        self.kinds.iter().enumerate().map(subject).collect()
    }

    /// What each limit has really used, by its own inequality.
    fn used(&self, place: usize, end: Micros) -> u64 {
        let sum = |lies: &dyn Fn(&Truth) -> bool| -> u64 {
            let those = self.truths.iter().filter(|truth| lies(truth));
            those.map(|truth| truth.amount).sum()
        };
        match self.kinds[place] {
            Kind::Log => sum(&|truth| truth.at + WINDOW > self.now),
            Kind::Sliding => {
                let before = sum(&|truth| truth.lies[place] + WINDOW == end);
                let faded = (before * (end - self.now).min(WINDOW)).div_ceil(WINDOW);
                sum(&|truth| truth.lies[place] == end) + faded
            }
            _ => sum(&|truth| truth.lies[place] == end),
        }
    }

    /// A request, which is let through by all or by none.
    fn charge(&mut self, cost: u64) -> Result<Option<(usize, Micros)>, String> {
        let subjects = self.subjects();
        let part = |subject: usize| Part {
            subject,
            limit: self.limit,
            capacity: self.limit,
            cost,
            mode: Mode::Enforce,
        };
        let call = Call {
            not_after: u64::MAX,
            needs: vec![Need {
                commit: Commit::Charge,
                parts: (0..subjects.len()).map(part).collect(),
            }],
            subjects,
            ..Call::default()
        };
        let Reply::Done(done) = self.slot.run(self.owner, self.now, &call) else {
            return Err("late".to_owned());
        };
        if !done.verdicts[0].iter().all(|seen| seen.fits) {
            return Ok(None);
        }
        let lie = |(seen, kind): (&Seen, &Kind)| {
            let State([first, second, _]) = seen.state;
            if *kind == Kind::Log { second } else { first }
        };
        let lies: Vec<Micros> = done.verdicts[0].iter().zip(&self.kinds).map(lie).collect();
        self.ledger += cost;
        self.truths.push(Truth {
            at: self.now,
            lies: lies.clone(),
            amount: cost,
        });
        for (place, end) in lies.into_iter().enumerate() {
            let used = self.used(place, end);
            if used > self.limit {
                return Err(format!("{used} of {} by {:?}", self.limit, self.kinds[place]));
            }
        }
        Ok(Some((self.truths.len() - 1, done.began)))
    }

    fn attend(&mut self, record: RecordName, act: Act) -> Said {
        let errand = Errand {
            not_after: u64::MAX,
            heard: [0; 2],
            record,
            act,
        };
        self.slot.attend(self.owner, self.now, &errand).said
    }

    fn reserve(&mut self, cost: u64, lasts: Micros) -> Result<(), String> {
        let Some((truth, began)) = self.charge(cost)? else {
            return Ok(());
        };
        let number = u8::try_from(self.reservations.len() % 256).unwrap();
        let record = RecordName([number; 16]);
        let open = Act::Open {
            began: Some(began),
            until: self.now + lasts,
            text: truth.to_be_bytes().to_vec(),
            listed: Vec::new(),
        };
        self.attend(record, open);
        self.reservations.push(Reservation {
            record,
            truth,
            cost,
            settled: false,
        });
        Ok(())
    }

    /// Settles something that was reserved at some time, perhaps again.
    fn settle(&mut self, which: usize, used: u64, by: u8) -> Result<(), String> {
        let Reservation {
            record, truth, cost, ..
        } = self.reservations[which];
        let (used, by) = (used.min(cost), [by; 16]);
        let hold = WINDOW;
        if !matches!(self.attend(record, Act::Claim { by, hold }), Said::Done(_)) {
            return Ok(());
        }
        let lies = self.truths[truth].lies.clone();
        let back = |(place, kind): (usize, &Kind)| Back {
            name: Name([u8::try_from(place).unwrap(); 16]),
            kind: *kind,
            window: WINDOW,
            end: lies[place],
            amount: cost - used,
        };
        let settle = Act::Settle {
            by,
            backs: self.kinds.iter().enumerate().map(back).collect(),
            answer: (Vec::new(), WINDOW),
        };
        if matches!(self.attend(record, settle), Said::Done(_)) {
            // Whoever settles it again has used nothing less.
            if !std::mem::replace(&mut self.reservations[which].settled, true) {
                self.truths[truth].amount = used;
            }
            self.ledger = self.ledger.saturating_sub(cost - used);
        }
        let used: u64 = self.truths.iter().map(|truth| truth.amount).sum();
        if self.ledger < used {
            return Err(format!("the ledger has {}, and {used} were used", self.ledger));
        }
        Ok(())
    }

    fn step(&mut self, dice: &mut Dice) -> Result<(), String> {
        self.now += match dice.below(6) {
            0 => dice.below(3 * WINDOW),
            _ => dice.below(WINDOW / 8),
        };
        match dice.below(12) {
            0..=3 => self.reserve(1 + dice.below(self.limit), WINDOW / 4 + dice.below(3 * WINDOW))?,
            4..=7 if !self.reservations.is_empty() => {
                let known = self.reservations.len() as u64;
                let back = dice.below(known.min(4));
                let (used, by) = (dice.below(self.limit), dice.below(3));
                let by = u8::try_from(by).unwrap();
                self.settle(usize::try_from(known - 1 - back).unwrap(), used, by)?;
            }
            8 if self.misfortunes => match dice.below(12) {
                0 => self.slot.flush(),
                1 => self.owner += 1,
                // A replica that lags behind takes over.
                2 => {
                    self.slot = self.earlier.clone();
                    self.owner += 1;
                }
                _ => self.earlier = self.slot.clone(),
            },
            _ => {
                self.charge(1 + dice.below(self.limit))?;
            }
        }
        Ok(())
    }
}

/// Runs of a world, with a mistake if one is planted.
fn run(seed: u64, misfortunes: bool, bug: Option<Bug>) -> Result<u64, String> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut slot = Slot::installed(0);
    slot.bug = bug;
    // One limit by itself, or all: others would hide what is wrong with one.
    let alone = KINDS.get(usize::try_from(seed).unwrap() % (KINDS.len() + 1));
    let mut world = World {
        kinds: alone.map_or(KINDS.to_vec(), |kind| vec![*kind]),
        earlier: slot.clone(),
        slot,
        owner: 0,
        now: START + dice.below(WINDOW),
        limit: 2 + dice.below(20),
        truths: Vec::new(),
        reservations: Vec::new(),
        ledger: 0,
        misfortunes,
    };
    for _ in 0..120 {
        world.step(&mut dice)?;
        if !misfortunes {
            world.nothing_is_lost()?;
        }
    }
    Ok(world.truths.iter().map(|truth| truth.amount).sum())
}

impl World {
    /// Without misfortunes a limit counts what was used, and no more: a dry run sees it.
    fn nothing_is_lost(&mut self) -> Result<(), String> {
        let subjects = self.subjects();
        for (place, subject) in subjects.into_iter().enumerate() {
            let need = Need {
                commit: Commit::DryRun,
                parts: vec![Part {
                    subject: 0,
                    limit: self.limit,
                    capacity: self.limit,
                    cost: 0,
                    mode: Mode::Enforce,
                }],
            };
            let call = Call {
                not_after: u64::MAX,
                subjects: vec![subject],
                needs: vec![need],
                ..Call::default()
            };
            let Reply::Done(done) = self.slot.run(self.owner, self.now, &call) else {
                return Err("late".to_owned());
            };
            let State([first, second, third]) = done.verdicts[0][0].state;
            let (end, counted) = match self.kinds[place] {
                Kind::Log => (0, first),
                Kind::Sliding => {
                    let faded = (second * (first - self.now).min(WINDOW)).div_ceil(WINDOW);
                    (first, third + faded)
                }
                _ => (first, second),
            };
            let used = self.used(place, end);
            if counted != used {
                return Err(format!(
                    "{:?} counts {counted}, and {used} were used",
                    self.kinds[place]
                ));
            }
        }
        Ok(())
    }
}

#[test]
fn what_is_reserved_goes_back_once_whatever_happens() {
    for seed in 1..=3_000 {
        run(seed, true, None).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
}

#[test]
fn nothing_is_lost_of_what_was_reserved_if_nothing_happens() {
    let mut used = 0;
    for seed in 1..=1_000 {
        used += run(seed, false, None).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
    assert!(used > 10_000, "{used}");
}

#[test]
fn mistakes_are_found() {
    for bug in [Bug::SettledTwice, Bug::VoidRecordCounts, Bug::BackIntoAnyWindow] {
        let found = (1..=3_000).find(|seed| run(*seed, true, Some(bug)).is_err());
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?}");
    }
}
