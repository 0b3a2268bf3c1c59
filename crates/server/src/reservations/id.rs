//! What a reservation is called. The name says for which org it is and until when, and that this node gave it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tollgate_core::{KeySeed, Timestamp};
use tollgate_counters::shared::record::RecordName;

use super::{OrgMark, mark};

const PREFIX: &str = "rsv_";

/// A reservation's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationId {
    pub(super) org: OrgMark,
    pub(super) until: Timestamp,
    pub(super) number: u64,
}

impl ReservationId {
    /// As it is told, signed.
    pub(super) fn text(self, seed: KeySeed) -> String {
        let mut bytes = self.bytes().to_vec();
        bytes.extend_from_slice(&sign(seed, &bytes));
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// What a text names, if it is one that was told by whoever has this seed.
    pub(super) fn read(text: &str, seed: KeySeed) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let (said, sign_of_it) = bytes.split_at_checked(24)?;
        let word = |place: usize| Some(u64::from_be_bytes(said.get(place..place + 8)?.try_into().ok()?));
        let id = Self {
            org: OrgMark(word(0)?),
            until: Timestamp::from_nanos(word(8)?),
            number: word(16)?,
        };
        bool::from(sign(seed, said).ct_eq(sign_of_it)).then_some(id)
    }

    fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let words = [self.org.0, self.until.nanos(), self.number];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

/// What the record of a charge is called that any node of a fleet may have given back. Who knows it may settle it, so it
/// can't be guessed; it says where the record is, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetId {
    /// Whose it is.
    pub org: Option<Box<str>>,
    /// Until when it can be settled.
    pub until: Timestamp,
    /// The record.
    pub record: RecordName,
}

impl FleetId {
    /// A new one.
    pub(super) fn new(org: Option<&str>, until: Timestamp) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self {
            org: org.map(Into::into),
            until,
            record: RecordName(bytes),
        })
    }

    /// That of a check that carried a key.
    pub fn of_key(org: Option<&str>, key: &str, until: Timestamp) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"a check with a key\0");
        hash.update(org.unwrap_or_default());
        hash.update(b"\0");
        hash.update(key);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Self {
            org: org.map(Into::into),
            until,
            record: RecordName(bytes),
        }
    }

    /// As it is told.
    pub(super) fn text(&self) -> String {
        let mut bytes = self.until.nanos().to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.record.0);
        let org = self.org.as_deref().unwrap_or_default();
        let [bytes, org] = [&*bytes, org.as_bytes()].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        format!("{PREFIX}{bytes}.{org}")
    }

    /// What a text names.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (bytes, org) = text.strip_prefix(PREFIX)?.split_once('.')?;
        let bytes: [u8; 24] = URL_SAFE_NO_PAD.decode(bytes).ok()?.try_into().ok()?;
        let (until, record) = bytes.split_at(8);
        let org = String::from_utf8(URL_SAFE_NO_PAD.decode(org).ok()?).ok()?;
        Some(Self {
            org: Some(org.into_boxed_str()).filter(|org| !org.is_empty()),
            until: Timestamp::from_nanos(u64::from_be_bytes(until.try_into().ok()?)),
            record: RecordName(record.try_into().ok()?),
        })
    }

    /// As which it is remembered by the node that gave it.
    pub(super) fn own(&self, seed: KeySeed) -> ReservationId {
        let number = u128::from_be_bytes(self.record.0) >> 64;
        ReservationId {
            org: OrgMark::of(seed, self.org.as_deref()),
            until: self.until,
            number: u64::try_from(number).unwrap_or(0),
        }
    }
}

fn sign(seed: KeySeed, bytes: &[u8]) -> [u8; 8] {
    mark(seed, b"a reservation\0", bytes).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_fleet_is_read_as_it_was_told() {
        for org in [None, Some("acme"), Some("é.~")] {
            let id = FleetId::new(org, Timestamp::from_nanos(7)).unwrap();
            assert_eq!(FleetId::read(&id.text()), Some(id.clone()));
            assert_eq!(ReservationId::read(&id.text(), KeySeed::new(1, 2)), None);
        }
        for text in ["", "rsv_", "rsv_.", "rsv_AAAA.AA", "rsv_AAAA"] {
            assert_eq!(FleetId::read(text), None, "{text}");
        }
        let key = |org, key| FleetId::of_key(org, key, Timestamp::EPOCH).record;
        assert_ne!(key(Some("a"), "k"), key(Some("b"), "k"));
        assert_eq!(key(None, "k"), key(None, "k"));
    }

    #[test]
    fn a_name_is_known_to_whoever_gave_it() {
        let seed = KeySeed::new(3, 4);
        let id = ReservationId {
            org: OrgMark::of(seed, Some("acme")),
            until: Timestamp::from_nanos(1_700_000_000_000_000_000),
            number: 7,
        };
        let text = id.text(seed);
        assert_eq!(ReservationId::read(&text, seed), Some(id));
        assert_eq!(ReservationId::read(&text, KeySeed::new(4, 3)), None);
        let other = text.replace(&text[8..9], if &text[8..9] == "A" { "B" } else { "A" });
        assert_eq!(ReservationId::read(&other, seed), None);
        for text in ["", "rsv_", "rsv_AAAA", &text[4..], &text[..text.len() - 1]] {
            assert_eq!(ReservationId::read(text, seed), None, "{text}");
        }
    }
}
