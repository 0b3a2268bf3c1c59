//! A slot of the shared store, asked for each request by itself.

use tollgate_core::{Decision, Identity, Level, Timestamp};
use tollgate_counters::Commit;
use tollgate_counters::shared::answer;
use tollgate_counters::shared::call::{Call, Name, Need, Part, Reply, Subject, Terms, micros};
use tollgate_counters::shared::slot::Slot;

use crate::suite::{Store, agrees_with_the_oracle};

const OWNER: u64 = 1;

impl Store for Slot {
    const RESOLUTION_NS: u64 = 1_000;

    fn decide(&mut self, levels: &[Level<'_>], now: Timestamp, commit: Commit) -> Decision {
        let mut call = Call {
            not_after: u64::MAX,
            ..Call::default()
        };
        let parts = levels.iter().map(|level| Part {
            subject: subject(&mut call.subjects, level, now),
            limit: level.rule.limit,
            capacity: level.rule.capacity,
            cost: level.cost,
            mode: level.mode,
        });
        let parts = parts.collect();
        call.needs.push(Need { commit, parts });
        let Reply::Done(done) = self.run(OWNER, micros(now), &call) else {
            panic!("the call is in time");
        };
        answer::decision(
            levels,
            &call.needs[0].parts,
            &call.subjects,
            &done.verdicts[0],
            done.now,
        )
    }
}

/// The place of a level's counter among the subjects, where it stands once and by its largest limit.
fn subject(subjects: &mut Vec<Subject>, level: &Level<'_>, now: Timestamp) -> usize {
    let Identity { word, half } = level.key.identity();
    let name = Name((u128::from(word) << 32 | u128::from(half)).to_le_bytes());
    let terms = Terms::of(level, 0, now);
    let place = subjects.iter().position(|subject| subject.name == name);
    let place = place.unwrap_or_else(|| {
        subjects.push(Subject {
            name,
            terms,
            formers: Vec::new(),
            left: 0,
        });
        subjects.len() - 1
    });
    if terms.limit > subjects[place].terms.limit {
        subjects[place].terms = terms;
    }
    place
}

#[test]
fn a_slot_decides_as_the_oracle_does() {
    agrees_with_the_oracle(|| Slot::installed(OWNER));
}
