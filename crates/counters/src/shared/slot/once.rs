//! Requests that are to be carried out once: what `once.lua` does, in Rust, for the one org whose slot this is.

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::Micros;
use super::super::once::{Act, KeyName, Print, Question, Room, Said};
use super::super::record::{Heard, Token};
use super::{Bug, Slot};

/// So many old keys make way at a time.
const SWEPT: usize = 8;

/// What is known of an org's keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    entries: BTreeMap<KeyName, Entry>,
    /// By when they were claimed.
    ages: BTreeSet<(Micros, KeyName)>,
}

#[derive(Debug, Clone)]
struct Entry {
    since: Micros,
    /// From then on the key is free.
    until: Micros,
    by: Token,
    print: Print,
    answer: Option<Vec<u8>>,
}

impl Slot {
    /// Answers a question that came over a connection to `owner` when the server's clock showed `time`.
    pub fn remember(&mut self, owner: u64, time: Micros, question: &Question) -> Heard<Said> {
        self.in_time(
            (owner, time),
            question.not_after,
            question.heard,
            |slot, _, now| slot.carried_out(question, now),
        )
    }

    fn carried_out(&mut self, question: &Question, now: Micros) -> Said {
        let twice = self.bug == Some(Bug::CarriedOutTwice);
        let Question { key, by, .. } = question;
        let entry = self.keys.entries.get(key);
        let known = entry.filter(|entry| now < entry.until && !twice);
        match (&question.act, known) {
            (Act::Claim { print, .. }, Some(entry)) if entry.print != *print => return Said::Other,
            (Act::Claim { .. }, Some(entry)) if entry.answer.is_some() => {
                let answer = entry.answer.clone().unwrap_or_default();
                return Said::Answered(entry.until - now, answer);
            }
            (_, Some(entry)) if entry.by != *by => return Said::Busy,
            _ => {}
        }
        let (print, lasts, answer) = match &question.act {
            Act::Claim { print, hold } => (*print, *hold, None),
            Act::Keep { print, answer, lasts } => (*print, *lasts, Some(answer.clone())),
            Act::Forget => {
                if known.is_some_and(|entry| entry.answer.is_none()) {
                    self.keys.remove(*key);
                }
                return Said::Done;
            }
        };
        let since = known.map_or(now, |entry| entry.since);
        let is_new = known.is_none();
        self.keys.remove(*key);
        let entry = Entry {
            since,
            until: now + lasts,
            by: *by,
            print,
            answer,
        };
        self.keys.entries.insert(*key, entry);
        self.keys.ages.insert((since, *key));
        if is_new {
            self.keys.make_way(question.room, now);
        }
        Said::Done
    }
}

impl Keys {
    fn remove(&mut self, key: KeyName) {
        if let Some(entry) = self.entries.remove(&key) {
            self.ages.remove(&(entry.since, key));
        }
    }

    /// Forgets what is too old, and what is too much.
    fn make_way(&mut self, room: Room, now: Micros) {
        let ages = self.ages.iter();
        let old = ages.take_while(|(since, _)| since.saturating_add(room.kept) <= now);
        let old: Vec<_> = old.take(SWEPT).copied().collect();
        self.drop_all(&old);
        let most = usize::try_from(room.most).unwrap_or(usize::MAX);
        let over = self.ages.len().saturating_sub(most).min(SWEPT);
        let oldest: Vec<_> = self.ages.iter().take(over).copied().collect();
        self.drop_all(&oldest);
    }

    fn drop_all(&mut self, keys: &[(Micros, KeyName)]) {
        for (_, key) in keys {
            self.remove(*key);
        }
    }
}
