//! A call as `call.lua` takes it, and its reply.

use redis::Value;

use super::keys::{Keys, Tag};
use super::link::Owner;
use super::script::{Parts, Script};
use crate::memory::Commit;
use crate::shared::call::{Call, Done, Grant, Kind, Reply, Seen, State, Subject, Terms};
use tollgate_core::Mode;

/// Runs a call.
pub static CALL: Script = Script::new("call", include_str!("call.lua"));
/// Writes the sentinels of slots that never held anything.
pub static INSTALL: Script = Script::new("install", include_str!("install.lua"));
/// Replaces the owner of slots that have moved with all they hold.
pub static ADOPT: Script = Script::new("adopt", include_str!("adopt.lua"));

/// How many numbers a stored counter has, its state last.
const STORED: usize = 8;

/// What the script said can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shared store's reply can't be read")
    }
}

impl std::error::Error for Malformed {}

/// The keys and arguments of a call about counters with one tag, which is in `slot`.
pub fn encode(call: &Call, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
    let mut parts = Parts::new();
    parts.key(keys.sentinel(slot));
    for subject in &call.subjects {
        parts.key(keys.counter(tag, subject.name));
    }
    for subject in &call.subjects {
        if subject.terms.kind == Kind::Log {
            parts.key(keys.entries(tag, subject.name));
        }
    }
    parts.arg(owner.as_str()).arg(arguments(call).0);
    parts
}

/// The keys and arguments that install slots for their owner.
pub fn install(owner: &Owner, keys: &Keys, slots: impl IntoIterator<Item = u16>) -> Parts {
    let mut parts = Parts::new();
    for slot in slots {
        parts.key(keys.sentinel(slot));
    }
    parts.arg(owner.as_str());
    parts
}

/// The keys and arguments that hand slots from one owner to the next.
pub fn adopt(from: &Owner, to: &Owner, keys: &Keys, slots: impl IntoIterator<Item = u16>) -> Parts {
    let mut parts = install(from, keys, slots);
    parts.arg(to.as_str());
    parts
}

fn arguments(call: &Call) -> Doubles {
    let mut doubles = Doubles::default();
    let logs = call
        .subjects
        .iter()
        .filter(|subject| subject.terms.kind == Kind::Log);
    let formers = call.subjects.iter().map(|subject| subject.formers.len()).sum();
    let plain = is_plain(call);
    doubles.push(not_after(call));
    doubles.extend(call.heard);
    doubles.push(u64::from(plain));
    for count in [
        call.subjects.len(),
        logs.count(),
        call.settlements.len(),
        formers,
        call.returns.len(),
        call.needs.len(),
        call.wants.len(),
    ] {
        doubles.push(count as u64);
    }
    for (place, subject) in call.subjects.iter().enumerate() {
        let terms = &subject.terms;
        let cost_or_left = if plain {
            call.needs[0].parts[place].cost
        } else {
            subject.left
        };
        doubles.extend([
            terms.kind as u64,
            terms.limit,
            terms.capacity,
            terms.window,
            terms.revision,
            cost_or_left,
        ]);
        if terms.kind == Kind::Quota {
            doubles.extend(terms.period);
        }
    }
    for settlement in &call.settlements {
        doubles.extend([
            from_one(settlement.subject),
            settlement.owed,
            settlement.drained,
            settlement.since,
            settlement.age,
            settlement.nodes,
        ]);
    }
    for (place, subject) in call.subjects.iter().enumerate() {
        for former in &subject.formers {
            doubles.extend([from_one(place), from_one(*former)]);
        }
    }
    for given in &call.returns {
        doubles.extend([
            from_one(given.subject),
            given.lease.node,
            given.lease.number,
            given.unspent,
            given.last_spent,
        ]);
    }
    for need in &call.needs {
        let charge = need.commit == Commit::Charge;
        doubles.extend([u64::from(charge), need.parts.len() as u64]);
        for part in &need.parts {
            let mode = match part.mode {
                Mode::Enforce => 0,
                Mode::Shadow => 1,
                Mode::Soft => 2,
            };
            doubles.extend([from_one(part.subject), part.limit, part.capacity, part.cost, mode]);
        }
    }
    for want in &call.wants {
        doubles.extend([
            from_one(want.subject),
            want.amount,
            want.hold,
            want.lease.node,
            want.lease.number,
            want.most,
            u64::from(want.needed),
        ]);
    }
    doubles
}

/// Whether it is one that the script has a short way for.
fn is_plain(call: &Call) -> bool {
    let [need] = call.needs.as_slice() else {
        return false;
    };
    let alike = |(place, subject): (usize, &Subject)| {
        let part = &need.parts[place];
        let Terms {
            kind,
            limit,
            capacity,
            ..
        } = subject.terms;
        !matches!(kind, Kind::Sliding | Kind::Log)
            && subject.formers.is_empty()
            && subject.left == 0
            && (part.subject, part.limit, part.capacity) == (place, limit, capacity)
            && part.mode == Mode::Enforce
            && part.cost > 0
    };
    need.commit == Commit::Charge
        && call.returns.is_empty()
        && call.settlements.is_empty()
        && call.wants.is_empty()
        && need.parts.len() == call.subjects.len()
        && call.subjects.iter().enumerate().all(alike)
}

/// A quota whose next period has ended by then knows no present one, so that the call is late.
fn not_after(call: &Call) -> u64 {
    let terms = call.subjects.iter().map(|subject| &subject.terms);
    let quotas = terms.filter(|terms| terms.kind == Kind::Quota);
    let ends = quotas.map(|terms| terms.period[2].saturating_sub(1));
    ends.fold(call.not_after, u64::min)
}

/// Lua counts from 1.
fn from_one(place: usize) -> u64 {
    place as u64 + 1
}

/// Reads the reply to a call.
pub fn decode(call: &Call, reply: &Value) -> Result<Reply, Malformed> {
    let Value::BulkString(bytes) = reply else {
        return Err(Malformed);
    };
    let (numbers, []) = bytes.as_chunks() else {
        return Err(Malformed);
    };
    let mut numbers = Numbers(numbers.iter());
    let now = numbers.next()?;
    let began = match numbers.0.next() {
        Some(began) if f64::from_le_bytes(*began) < 0.0 => return Ok(Reply::Late { now }),
        Some(began) => whole(*began)?,
        None => return Err(Malformed),
    };
    let mut verdicts = Vec::with_capacity(call.needs.len());
    // Long records are counters as they are stored: the short way was taken, and everything had room.
    let stored = numbers.0.len() == STORED * call.subjects.len() && is_plain(call);
    for need in &call.needs {
        let seen = need.parts.iter().map(|_| {
            let fits = if stored {
                numbers.0.nth(STORED - 4).is_some()
            } else {
                numbers.next()? == 1
            };
            let state = numbers.state()?;
            Ok(Seen { fits, state })
        });
        verdicts.push(seen.collect::<Result<_, _>>()?);
    }
    let grants = call.wants.iter().map(|_| {
        Ok(Grant {
            amount: numbers.next()?,
            hold: numbers.next()?,
            state: numbers.state()?,
        })
    });
    let grants = grants.collect::<Result<_, _>>()?;
    if numbers.0.len() > 0 {
        return Err(Malformed);
    }
    Ok(Reply::Done(Done {
        now,
        began,
        verdicts,
        grants,
    }))
}

/// Numbers as the script reads them, one after the other.
#[derive(Default)]
pub(super) struct Doubles(pub(super) Vec<u8>);

impl Doubles {
    #[expect(clippy::cast_precision_loss, reason = "numbers of a call are below 2^53")]
    pub(super) fn push(&mut self, number: u64) {
        self.0.extend_from_slice(&(number as f64).to_le_bytes());
    }

    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.push(number);
        }
    }
}

/// Numbers as the script writes them.
struct Numbers<'a>(std::slice::Iter<'a, [u8; 8]>);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, Malformed> {
        self.0.next().ok_or(Malformed).and_then(|bytes| whole(*bytes))
    }

    fn state(&mut self) -> Result<State, Malformed> {
        Ok(State([self.next()?, self.next()?, self.next()?]))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is not a whole number below 2^53 is refused"
)]
pub(super) fn whole(bytes: [u8; 8]) -> Result<u64, Malformed> {
    const END: f64 = 9_007_199_254_740_992.0;
    let number = f64::from_le_bytes(bytes);
    if (0.0..END).contains(&number) && number.fract() == 0.0 {
        Ok(number as u64)
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::call::{LeaseId, Name, Need, Part, Settlement, Want};

    /// A need of one bucket, and a lease of it.
    fn call() -> Call {
        let subject = Subject {
            name: Name([0; 16]),
            terms: Terms {
                kind: Kind::Token,
                limit: 10,
                capacity: 20,
                window: 1_000,
                revision: 3,
                period: [0; 3],
            },
            formers: Vec::new(),
            left: 0,
        };
        let settlement = Settlement {
            subject: 0,
            owed: 6,
            drained: 4,
            since: 33,
            age: 11,
            nodes: 3,
        };
        let part = Part {
            subject: 0,
            limit: 10,
            capacity: 20,
            cost: 1,
            mode: Mode::Enforce,
        };
        let want = Want {
            subject: 0,
            amount: 5,
            hold: 100,
            lease: LeaseId { node: 8, number: 9 },
            most: 15,
            needed: true,
        };
        Call {
            not_after: 77,
            heard: [40, 44],
            subjects: vec![subject],
            settlements: vec![settlement],
            needs: vec![Need {
                commit: Commit::Charge,
                parts: vec![part],
            }],
            wants: vec![want],
            ..Call::default()
        }
    }

    fn reply(numbers: &[f64]) -> Value {
        Value::BulkString(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    #[test]
    fn a_call_is_the_numbers_that_the_script_describes() {
        let bytes = arguments(&call()).0;
        let (numbers, rest) = bytes.as_chunks();
        let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        assert!(rest.is_empty());
        let head = [77.0, 40.0, 44.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0];
        let subject = [1.0, 10.0, 20.0, 1_000.0, 3.0, 0.0];
        let settlement = [1.0, 6.0, 4.0, 33.0, 11.0, 3.0];
        let need = [1.0, 1.0, 1.0, 10.0, 20.0, 1.0, 0.0];
        let want = [1.0, 5.0, 100.0, 8.0, 9.0, 15.0, 1.0];
        assert_eq!(numbers, [&head[..], &subject, &settlement, &need, &want].concat());
    }

    #[test]
    fn a_reply_is_read_if_it_has_what_was_asked_for() {
        let call = call();
        let told = [50.0, 40.0, 1.0, 50.0, 2.0, 3.0, 5.0, 100.0, 50.0, 7.0, 3.0];
        let done = Done {
            now: 50,
            began: 40,
            verdicts: vec![vec![Seen {
                fits: true,
                state: State([50, 2, 3]),
            }]],
            grants: vec![Grant {
                amount: 5,
                hold: 100,
                state: State([50, 7, 3]),
            }],
        };
        assert_eq!(decode(&call, &reply(&told)), Ok(Reply::Done(done)));
        assert_eq!(decode(&call, &reply(&[50.0, -1.0])), Ok(Reply::Late { now: 50 }));

        let mut others = vec![Value::Nil, Value::Int(1), Value::BulkString(vec![0; 9])];
        for length in [0, 1, 2, 10] {
            others.push(reply(&told[..length]));
        }
        others.push(reply(&[&told[..], &[0.0]].concat()));
        for wrong in [-1.0, 0.5, f64::NAN, f64::INFINITY, 1e16] {
            let mut told = told;
            told[4] = wrong;
            others.push(reply(&told));
        }
        for other in others {
            assert_eq!(decode(&call, &other), Err(Malformed), "{other:?}");
        }
    }

    #[test]
    fn a_plain_call_may_be_answered_with_its_counters() {
        let mut call = call();
        assert!(!is_plain(&call));
        call.wants.clear();
        assert!(!is_plain(&call));
        call.settlements.clear();
        assert!(is_plain(&call));
        let counter = [40.0, 3.0, 10.0, 20.0, 99.0, 50.0, 2.0, 3.0];
        let seen = Seen {
            fits: true,
            state: State([50, 2, 3]),
        };
        match decode(&call, &reply(&[&[50.0, 40.0], &counter[..]].concat())) {
            Ok(Reply::Done(done)) => assert_eq!(done.verdicts, [[seen]]),
            other => panic!("{other:?}"),
        }
        for change in [
            |call: &mut Call| call.needs[0].commit = Commit::DryRun,
            |call: &mut Call| call.needs[0].parts[0].mode = Mode::Soft,
            |call: &mut Call| call.needs[0].parts[0].cost = 0,
            |call: &mut Call| call.needs[0].parts[0].limit = 9,
            |call: &mut Call| call.needs[0].parts.clear(),
            |call: &mut Call| call.needs.clear(),
            |call: &mut Call| call.subjects[0].terms.kind = Kind::Log,
            |call: &mut Call| call.subjects[0].formers.push(0),
        ] {
            let mut other = call.clone();
            change(&mut other);
            assert!(!is_plain(&other), "{other:?}");
        }
    }

    #[test]
    fn a_call_is_late_when_it_knows_no_period_of_a_quota() {
        let mut call = call();
        call.not_after = 5_000;
        call.subjects[0].terms.kind = Kind::Quota;
        call.subjects[0].terms.period = [1_000, 2_000, 3_000];
        assert_eq!(not_after(&call), 2_999);
        call.not_after = 2_500;
        assert_eq!(not_after(&call), 2_500);
    }
}
