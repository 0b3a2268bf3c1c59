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
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Somebody is at it, perhaps since it was free again.
    Claimed {
        anew: bool,
    },
    Answered {
        answer: Vec<u8>,
        anew: bool,
    },
    /// What was answered holds no longer.
    Free,
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
        let (is_free, anew) = known.map_or((false, false), |entry| {
            let anew = match entry.state {
                State::Claimed { anew } | State::Answered { anew, .. } => anew,
                State::Free => false,
            };
            (entry.state == State::Free, anew)
        });
        let is_claim = matches!(question.act, Act::Claim { .. });
        match (&question.act, known) {
            (Act::Free, Some(entry)) if matches!(entry.state, State::Claimed { .. }) => return Said::Busy,
            (Act::Free, _) | (_, None) => {}
            (Act::Claim { .. }, _) if is_free => {}
            (Act::Claim { print, .. }, Some(entry)) if entry.print != *print => return Said::Other,
            (
                Act::Claim { .. },
                Some(Entry {
                    until,
                    state: State::Answered { answer, anew },
                    ..
                }),
            ) => {
                let (lasts, answer) = (until - now, answer.clone());
                return if *anew {
                    Said::AnsweredAnew(lasts, answer)
                } else {
                    Said::Answered(lasts, answer)
                };
            }
            (_, Some(entry)) if is_free || entry.by != *by => return Said::Busy,
            _ => {}
        }
        let kept = question.room.kept;
        let (print, lasts, state) = match &question.act {
            Act::Claim { print, hold } => {
                let anew = is_free || anew;
                (*print, *hold, State::Claimed { anew })
            }
            Act::Keep { print, answer, lasts } => {
                let answer = answer.clone();
                (*print, *lasts, State::Answered { answer, anew })
            }
            Act::Free => ([0; 32], kept, State::Free),
            Act::Forget => match known.map(|entry| &entry.state) {
                Some(State::Claimed { anew: true }) => ([0; 32], kept, State::Free),
                Some(State::Claimed { anew: false }) => {
                    self.keys.remove(*key);
                    return Said::Done;
                }
                _ => return Said::Done,
            },
        };
        let is_new = known.is_none() || is_free && is_claim;
        let since = known.filter(|_| !is_new).map_or(now, |entry| entry.since);
        let said = match state {
            State::Claimed { anew: true } => Said::Freed,
            _ => Said::Done,
        };
        self.keys.remove(*key);
        let entry = Entry {
            since,
            until: now + lasts,
            by: *by,
            print,
            state,
        };
        self.keys.entries.insert(*key, entry);
        self.keys.ages.insert((since, *key));
        if is_new {
            self.keys.make_way(question.room, now);
        }
        said
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
