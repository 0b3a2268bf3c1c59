//! An errand as `record.lua` takes it, and what it answers.

use redis::Value;

use super::call::{Doubles, Malformed, whole};
use super::carrier::{Content, Errands};
use super::keys::{Keys, Tag};
use super::link::Owner;
use super::script::{Parts, Script};
use crate::shared::call::{Kind, Micros};
use crate::shared::record::{Act, Errand, Heard, Said, Token};

/// Does an errand.
pub static RECORD: Script = Script::new(
    "record",
    concat!(include_str!("slot.lua"), include_str!("record.lua")),
);

/// Lists the records of an org that are open.
pub(super) static LISTED: Script = Script::new("listed", include_str!("listed.lua"));

/// Whichever generation it is.
const WHICHEVER: u64 = (1 << 53) - 1;

/// The keys and arguments of an errand about a record with a tag, which is in `slot`.
pub fn encode_errand(errand: &Errand, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
    let mut parts = Parts::new();
    parts
        .key(keys.sentinel(slot))
        .key(keys.record(tag, errand.record));
    parts.key(keys.listed(tag));
    let mut doubles = Doubles::default();
    doubles.push(errand.not_after);
    doubles.extend(errand.heard);
    let (text, answer): (&[u8], &[u8]) = match &errand.act {
        Act::Open {
            began,
            until,
            text,
            listed,
        } => {
            doubles.extend([1, began.unwrap_or(WHICHEVER), *until]);
            (text, listed)
        }
        Act::Claim { by, hold } => {
            doubles.extend([2, *hold]);
            (by, b"")
        }
        Act::Release { by } => {
            doubles.push(3);
            (by, b"")
        }
        Act::Settle { by, backs, answer } => {
            doubles.extend([4, answer.1, backs.len() as u64]);
            for back in backs {
                parts.key(keys.counter(tag, back.name));
                doubles.extend([back.kind as u64, back.window, back.end, back.amount]);
            }
            for back in backs.iter().filter(|back| back.kind == Kind::Log) {
                parts.key(keys.entries(tag, back.name));
            }
            (by, &answer.0)
        }
    };
    parts.arg(owner.as_str()).arg(doubles.0).arg(text).arg(answer);
    parts
}

/// Reads the reply to an errand.
pub fn decode_errand(reply: Value) -> Result<Heard, Malformed> {
    let mut words = Words::read(reply)?;
    let said = match words.what {
        0 => Said::Late,
        1 => Said::Lost,
        2 => Said::Done(words.text()?),
        3 => Said::Unknown,
        4 => {
            let by = Token::try_from(words.text()?).map_err(|_| Malformed)?;
            Said::Settled(by, words.text()?)
        }
        5 => Said::Expired,
        6 => Said::Busy,
        _ => return Err(Malformed),
    };
    Ok(words.heard(said))
}

/// What a script says: what came of it, its time and when what the slot knows began, and perhaps some texts.
pub(super) struct Words {
    pub(super) what: i64,
    now: Micros,
    began: Micros,
    texts: std::vec::IntoIter<Value>,
}

impl Words {
    pub(super) fn read(reply: Value) -> Result<Self, Malformed> {
        let Value::Array(parts) = reply else {
            return Err(Malformed);
        };
        let mut texts = parts.into_iter();
        let (Some(Value::Int(what)), Some(Value::BulkString(times))) = (texts.next(), texts.next()) else {
            return Err(Malformed);
        };
        let ([now, began], []) = times.as_chunks() else {
            return Err(Malformed);
        };
        Ok(Self {
            what,
            now: whole(*now)?,
            began: whole(*began)?,
            texts,
        })
    }

    /// The next text; empty if there is none.
    pub(super) fn text(&mut self) -> Result<Vec<u8>, Malformed> {
        match self.texts.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            None => Ok(Vec::new()),
            Some(_) => Err(Malformed),
        }
    }

    pub(super) fn heard<S>(self, said: S) -> Heard<S> {
        Heard {
            now: self.now,
            began: self.began,
            said,
        }
    }
}

impl Content for Errand {
    const SCRIPT: &'static Script = &RECORD;

    fn parts(&self, owner: &Owner, keys: &Keys, tag: &Tag, slot: u16) -> Parts {
        encode_errand(self, owner, keys, tag, slot)
    }

    fn too_late(&self) -> Self {
        Self {
            not_after: 0,
            ..self.clone()
        }
    }
}

impl Errands for Errand {
    type Said = Said;

    fn read(reply: Value) -> Result<Heard, Malformed> {
        decode_errand(reply)
    }
}
