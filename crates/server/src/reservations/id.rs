//! What a reservation is called. The name says for which org it is and until when, and that this node gave it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_core::{KeySeed, Timestamp};

use super::OrgMark;

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
        (sign(seed, said) == sign_of_it).then_some(id)
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

fn sign(seed: KeySeed, bytes: &[u8]) -> [u8; 8] {
    let mut signed = b"a reservation of this node's\0".to_vec();
    signed.extend_from_slice(bytes);
    seed.id(&signed).short().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_to_whoever_gave_it() {
        let seed = KeySeed(3, 4);
        let id = ReservationId {
            org: OrgMark::of(seed, Some("acme")),
            until: Timestamp::from_nanos(1_700_000_000_000_000_000),
            number: 7,
        };
        let text = id.text(seed);
        assert_eq!(ReservationId::read(&text, seed), Some(id));
        assert_eq!(ReservationId::read(&text, KeySeed(4, 3)), None);
        let other = text.replace(&text[8..9], if &text[8..9] == "A" { "B" } else { "A" });
        assert_eq!(ReservationId::read(&other, seed), None);
        for text in ["", "rsv_", "rsv_AAAA", &text[4..], &text[..text.len() - 1]] {
            assert_eq!(ReservationId::read(text, seed), None, "{text}");
        }
    }
}
