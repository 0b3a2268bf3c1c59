//! What counters are called in Redis: `tg:REGION:{TAG}:NAME`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::slots::{slot_of_tag, tag_of_slot};
use crate::shared::call::Name;
use crate::shared::record::RecordName;

/// The keys of one region's counters.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
}

/// What stands between a key's braces and so chooses its slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(String);

impl Tag {
    /// All counters of an org are in one slot.
    pub fn org(id: &str) -> Self {
        Self(escape(id))
    }

    /// A counter that spans orgs is wherever its own name takes it.
    pub fn alone(name: Name) -> Self {
        Self(text(name))
    }

    /// Its characters, none of which is a brace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its slot in a Cluster.
    pub fn slot(&self) -> u16 {
        slot_of_tag(self.0.as_bytes())
    }
}

impl Keys {
    /// Those of a region.
    pub fn new(region: &str) -> Self {
        Self {
            prefix: format!("tg:{}:", escape(region)),
        }
    }

    /// The sentinel of a slot.
    pub fn sentinel(&self, slot: u16) -> String {
        format!("{}{{{}}}:sentinel", self.prefix, tag_of_slot(slot))
    }

    /// What is the whole fleet's, and no counter.
    pub(super) fn of_fleet(&self, what: &str) -> String {
        format!("{}{{fleet}}:{what}", self.prefix)
    }

    /// A chunk of the mirror, wherever its name takes it.
    pub(super) fn chunk(&self, name: &str) -> String {
        format!("{}{{{name}}}:mirror", self.prefix)
    }

    /// A counter.
    pub fn counter(&self, tag: &Tag, name: Name) -> String {
        format!("{}{{{}}}:{}", self.prefix, tag.0, text(name))
    }

    /// The entries of a counter that is a log.
    pub fn entries(&self, tag: &Tag, name: Name) -> String {
        self.counter(tag, name) + ":l"
    }

    /// The record of a charge that may be given back.
    pub fn record(&self, tag: &Tag, name: RecordName) -> String {
        format!(
            "{}{{{}}}:r:{}",
            self.prefix,
            tag.0,
            URL_SAFE_NO_PAD.encode(name.0)
        )
    }

    /// The list of such records.
    pub fn listed(&self, tag: &Tag) -> String {
        format!("{}{{{}}}:r", self.prefix, tag.0)
    }

    /// What is known of the keys of clients, by which a request is carried out once.
    pub fn once(&self, tag: &Tag) -> String {
        format!("{}{{{}}}:k", self.prefix, tag.0)
    }

    /// How old each of those is.
    pub fn once_ages(&self, tag: &Tag) -> String {
        format!("{}{{{}}}:k:ages", self.prefix, tag.0)
    }
}

fn text(name: Name) -> String {
    URL_SAFE_NO_PAD.encode(name.0)
}

/// An id in characters that mean nothing in a key, never empty, and different for every id.
pub fn escape(id: &str) -> String {
    if id.is_empty() {
        return "%".to_owned();
    }
    let mut escaped = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::slots::slot_of_key;
    use super::*;

    const NAME: Name = Name([0xfb, 0xff, 0xbe, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    #[test]
    fn ids_are_escaped_one_to_one() {
        for (id, escaped) in [
            ("acme", "acme"),
            ("Acme-1_2.example", "Acme-1_2.example"),
            ("", "%"),
            ("%", "%25"),
            ("a}b{c:d", "a%7Db%7Bc%3Ad"),
            ("é\n", "%C3%A9%0A"),
        ] {
            assert_eq!(escape(id), escaped);
        }
    }

    #[test]
    fn no_id_moves_a_key_out_of_its_slot() {
        for region in ["eu", "", "{x}"] {
            let keys = Keys::new(region);
            for id in ["acme", "", "}", "{}", "a}:{b", "{", "%"] {
                let tag = Tag::org(id);
                for key in [keys.counter(&tag, NAME), keys.entries(&tag, NAME)] {
                    assert_eq!(slot_of_key(key.as_bytes()), tag.slot(), "{key}");
                    let sentinel = keys.sentinel(tag.slot());
                    assert_eq!(slot_of_key(sentinel.as_bytes()), tag.slot(), "{sentinel}");
                }
            }
        }
    }

    #[test]
    fn keys_are_plain_text() {
        let keys = Keys::new("eu-1");
        assert_eq!(
            keys.counter(&Tag::org("acme"), NAME),
            "tg:eu-1:{acme}:-_--AwQFBgcICQoLDA0ODw"
        );
        assert_eq!(
            keys.entries(&Tag::alone(NAME), NAME),
            "tg:eu-1:{-_--AwQFBgcICQoLDA0ODw}:-_--AwQFBgcICQoLDA0ODw:l"
        );
        assert_eq!(keys.sentinel(0), "tg:eu-1:{3560}:sentinel");
    }
}
