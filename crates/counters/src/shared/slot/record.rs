//! Records of charges that may be given back: what `record.lua` does, in Rust.

use super::super::call::{Kind, Micros};
use super::super::record::{Act, Back, Errand, Heard, Outcome, Said, Token};
use super::counter::Counter;
use super::{Bug, FAR_BACK, Slot};

/// How far back in a log an entry is looked for.
const SEARCHED: usize = 1_000;

/// A record.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// The generation that was charged.
    began: Micros,
    until: Micros,
    text: Vec<u8>,
    claimed: Option<(Token, Micros)>,
    answer: Option<Vec<u8>>,
}

impl Slot {
    /// Does an errand that came over a connection to `owner` when the server's clock showed `time`.
    pub fn attend(&mut self, owner: u64, time: Micros, errand: &Errand) -> Heard {
        self.in_time(
            (owner, time),
            errand.not_after,
            errand.heard,
            |slot, began, now| slot.act(errand, began, now),
        )
    }

    /// Does something if it is not too late for it, and what the slot knows goes on.
    pub(super) fn in_time<S: Outcome>(
        &mut self,
        (owner, time): (u64, Micros),
        not_after: Micros,
        heard: [Micros; 2],
        act: impl FnOnce(&mut Self, Micros, Micros) -> S,
    ) -> Heard<S> {
        let sentinel = self.sentinel;
        let highest = sentinel.map_or(0, |sentinel| sentinel.highest);
        let back = highest > time.saturating_add(FAR_BACK);
        let now = if back { time } else { time.max(highest) };
        let began = sentinel.map_or(0, |sentinel| sentinel.began);
        let said = if now > not_after {
            S::LATE
        } else if self.goes_on(owner, back, heard).is_none() {
            // What begins a new generation for a call ends everything here; that is left to a call to note.
            S::LOST
        } else {
            self.guard(owner, now, back, heard);
            act(self, began, now)
        };
        Heard { now, began, said }
    }

    fn act(&mut self, errand: &Errand, began: Micros, now: Micros) -> Said {
        if let Act::Open {
            began: charged,
            until,
            text,
            ..
        } = &errand.act
        {
            if charged.is_some_and(|charged| charged != began) {
                return Said::Lost;
            }
            let same = |record: &Record| record.text == *text;
            if self.records.get(&errand.record).is_some_and(same) {
                return Said::Done(Vec::new());
            }
            let record = Record {
                began,
                until: *until,
                text: text.clone(),
                claimed: None,
                answer: None,
            };
            self.records.insert(errand.record, record);
            return Said::Done(Vec::new());
        }
        let bug = self.bug;
        let known = self.records.get_mut(&errand.record);
        let known = known.filter(|record| record.began == began || bug == Some(Bug::VoidRecordCounts));
        let Some(record) = known else {
            return Said::Unknown;
        };
        let by = record.claimed.map(|(by, _)| by);
        if let (Some(by), Some(answer)) = (by, &record.answer)
            && bug != Some(Bug::SettledTwice)
        {
            return Said::Settled(by, answer.clone());
        }
        match &errand.act {
            Act::Open { .. } => Said::Unknown,
            Act::Claim { .. } if now >= record.until => Said::Expired,
            Act::Claim { by: own, hold } => {
                let other = record.claimed.filter(|(by, until)| by != own && now < *until);
                if other.is_some() {
                    return Said::Busy;
                }
                record.claimed = Some((*own, now + hold));
                Said::Done(record.text.clone())
            }
            Act::Release { by: own } | Act::Settle { by: own, .. } if by != Some(*own) => Said::Busy,
            Act::Release { .. } => {
                record.claimed = None;
                Said::Done(Vec::new())
            }
            Act::Settle { backs, answer, .. } => {
                record.answer = Some(answer.0.clone());
                let taken = backs.iter().flat_map(|back| self.give_back(back, began, now));
                Said::Done(taken.collect())
            }
        }
    }

    /// Gives back what a counter still counts of a charge, as the script tells it.
    fn give_back(&mut self, back: &Back, began: Micros, now: Micros) -> [u8; 8] {
        let anywhere = self.bug == Some(Bug::BackIntoAnyWindow);
        let counter = self.counters.get_mut(&back.name);
        let counter = counter.filter(|counter| counter.began() == began && counter.is_kept(now));
        let taken = counter.map_or(0, |counter| counter.give_back(back, now, anywhere));
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
        (taken as f64).to_le_bytes()
    }
}

impl Counter {
    /// Lowers the count of the very window that was charged, and says by how much.
    fn give_back(&mut self, back: &Back, now: Micros, anywhere: bool) -> u64 {
        if back.kind == Kind::Log {
            return self.lower(back, now);
        }
        let [end, second, third] = &mut self.numbers;
        let count = match back.kind {
            Kind::Sliding if *end == back.end => third,
            Kind::Sliding if *end == back.end + back.window => second,
            Kind::Sliding => return 0,
            _ if *end == back.end && now < *end || anywhere => second,
            _ => return 0,
        };
        let taken = back.amount.min(*count);
        *count -= taken;
        taken
    }

    /// Lowers the entry of an instant in a log, if it is among the latest and has not left.
    fn lower(&mut self, back: &Back, now: Micros) -> u64 {
        if now >= back.end + back.window {
            return 0;
        }
        let latest = self.log.iter_mut().rev().take(SEARCHED);
        let Some((_, count)) = latest.into_iter().find(|(at, _)| *at == back.end) else {
            return 0;
        };
        let taken = back.amount.min(*count);
        *count -= taken;
        taken
    }
}
