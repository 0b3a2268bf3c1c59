//! A question about a key as `once.lua` takes it, and what it answers.

use redis::Value;

use super::call::{Doubles, Malformed, whole};
use super::carrier::{Content, Errands};
use super::keys::{Keys, Tag};
use super::link::Owner;
use super::record::Words;
use super::script::{Parts, Script};
use crate::shared::once::{Act, Question, Said};
use crate::shared::record::Heard;

/// Answers a question.
pub static ONCE: Script = Script::new(
    "once",
    concat!(include_str!("slot.lua"), include_str!("once.lua")),
);

/// The keys and arguments of a question about a key of an org, which is in `slot`.
pub fn encode_question(question: &Question, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
    let mut parts = Parts::new();
    parts
        .key(keys.sentinel(slot))
        .key(keys.once(tag))
        .key(keys.once_ages(tag));
    let nothing = ([0; 32], &[][..]);
    let (act, lasts, (print, answer)) = match &question.act {
        Act::Claim { print, hold } => (1, *hold, (*print, &[][..])),
        Act::Keep { print, answer, lasts } => (2, *lasts, (*print, &answer[..])),
        Act::Forget => (3, 0, nothing),
        Act::Free => (4, 0, nothing),
    };
    let mut doubles = Doubles::default();
    doubles.push(question.not_after);
    doubles.extend(question.heard);
    doubles.extend([act, lasts, question.room.kept, question.room.most]);
    parts.arg(owner.as_str()).arg(doubles.0);
    parts.arg(&question.key.0[..]).arg(&question.by[..]);
    parts.arg(&print[..]).arg(answer);
    parts
}

/// Reads the reply to a question.
pub fn decode_question(reply: Value) -> Result<Heard<Said>, Malformed> {
    let mut words = Words::read(reply)?;
    let said = match words.what {
        0 => Said::Late,
        1 => Said::Lost,
        2 => Said::Done,
        what @ (3 | 7) => {
            let lasts = words.text()?;
            let lasts = whole(lasts.try_into().map_err(|_| Malformed)?)?;
            let answer = words.text()?;
            if what == 7 {
                Said::AnsweredAnew(lasts, answer)
            } else {
                Said::Answered(lasts, answer)
            }
        }
        4 => Said::Other,
        5 => Said::Busy,
        6 => Said::Freed,
        _ => return Err(Malformed),
    };
    Ok(words.heard(said))
}

impl Content for Question {
    const SCRIPT: &'static Script = &ONCE;

    fn parts(&self, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
        encode_question(self, owner, keys, tag, slot)
    }

    fn too_late(&self) -> Self {
        Self {
            not_after: 0,
            act: Act::Forget,
            ..*self
        }
    }
}

impl Errands for Question {
    type Said = Said;

    fn read(reply: Value) -> Result<Heard<Said>, Malformed> {
        decode_question(reply)
    }
}
