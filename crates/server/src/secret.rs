//! Secrets of control-plane tokens and API keys: made, recognised, and kept only as hashes.
//!
//! A secret is a prefix that says what it opens, 32 random bytes as base64url and a checksum of all that. The
//! prefix lets scanners of source code find leaked ones; the checksum lets a mistyped or foreign secret be
//! refused without a look-up. A hash without salt is enough, for nobody guesses 32 random bytes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a secret opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The control plane.
    Token,
    /// A tenant's API, in earnest.
    LiveKey,
    /// A tenant's API, for trying.
    TestKey,
}

/// A secret as its owner is told it, once. Never shown by `Debug`.
pub struct Secret(String);

/// What is kept of a secret: its SHA-256. Shown and read as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

/// A text is no hash of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAHash;

impl SecretKind {
    const ALL: [Self; 3] = [Self::Token, Self::LiveKey, Self::TestKey];

    /// What secrets of this kind begin with, before an underscore.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Token => "tgt",
            Self::LiveKey => "tgk_live",
            Self::TestKey => "tgk_test",
        }
    }
}

impl Secret {
    /// Makes a new secret, unless the operating system gives no randomness.
    pub fn make(kind: SecretKind) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self::of(kind, &bytes))
    }

    /// The secret itself. This is the only place that shows it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn of(kind: SecretKind, bytes: &[u8; 32]) -> Self {
        let mut text = format!("{}_{}", kind.prefix(), base64url(bytes));
        text.push_str(&checksum(&text));
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl SecretHash {
    /// The hash of a whole secret.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Whether both are the same, without telling by the time taken how much is.
    pub fn matches(&self, other: &Self) -> bool {
        self.0[..].ct_eq(&other.0[..]).into()
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({self})")
    }
}

impl FromStr for SecretHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(NotAHash);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for NotAHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret's hash is 64 hexadecimal digits")
    }
}

impl std::error::Error for NotAHash {}

/// Whether a text could be a secret that was made here: its prefix, length and checksum are right.
pub fn well_formed(text: &str) -> bool {
    parts(text).is_some()
}

/// As much of a secret as its owner needs to recognise it in a list: the prefix and 8 characters of 43. Empty
/// for what is not [well-formed](well_formed), of which nothing is known to be safe to show.
pub fn shown_prefix(secret: &str) -> String {
    let shown = parts(secret).and_then(|(kind, random)| Some((kind, random.get(..SHOWN_CHARACTERS)?)));
    shown.map_or_else(String::new, |(kind, start)| format!("{}_{start}", kind.prefix()))
}

const SHOWN_CHARACTERS: usize = 8;
const RANDOM_CHARACTERS: usize = 43;
const CHECKSUM_CHARACTERS: usize = 6;

const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The kind and the random part of a well-formed secret.
fn parts(text: &str) -> Option<(SecretKind, &str)> {
    // The random part may hold underscores too, so the known prefixes are tried instead of splitting.
    let mut known = SecretKind::ALL.into_iter();
    let (kind, rest) = known.find_map(|kind| {
        let rest = text.strip_prefix(kind.prefix())?.strip_prefix('_')?;
        Some((kind, rest))
    })?;
    if rest.len() != RANDOM_CHARACTERS + CHECKSUM_CHARACTERS {
        return None;
    }
    let random = rest.get(..RANDOM_CHARACTERS)?;
    let (before, sum) = text.split_at_checked(text.len() - CHECKSUM_CHARACTERS)?;
    let right = random.bytes().all(|byte| BASE64URL.contains(&byte)) && checksum(before) == sum;
    right.then_some((kind, random))
}

/// Base64 with the alphabet of RFC 4648, section 5, and without padding.
fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(RANDOM_CHARACTERS);
    for group in bytes.chunks(3) {
        let byte = |place: usize| group.get(place).map_or(0, |byte| usize::from(*byte));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=group.len() {
            text.push(char::from(BASE64URL[bits >> (18 - 6 * place) & 63]));
        }
    }
    text
}

/// The CRC-32 of a text as six digits of base 62, the greatest first.
fn checksum(text: &str) -> String {
    let mut rest = crc32(text.as_bytes());
    let mut digits = [0; CHECKSUM_CHARACTERS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

/// CRC-32 as in IEEE 802.3, bit by bit: secrets are short, and a table would be longer than this.
fn crc32(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            let carry = if sum & 1 == 1 { 0xEDB8_8320 } else { 0 };
            sum >> 1 ^ carry
        })
    });
    !sum
}

fn hex_digit(byte: u8) -> Result<u8, NotAHash> {
    let digit = char::from(byte).to_digit(16);
    digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(NotAHash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> [u8; 32] {
        std::array::from_fn(|place| u8::try_from(place).unwrap())
    }

    #[test]
    fn a_secret_is_prefix_random_part_and_checksum() {
        for (kind, prefix) in [
            (SecretKind::Token, "tgt_"),
            (SecretKind::LiveKey, "tgk_live_"),
            (SecretKind::TestKey, "tgk_test_"),
        ] {
            let secret = Secret::make(kind).unwrap();
            let rest = secret.expose().strip_prefix(prefix).unwrap();
            assert_eq!(rest.len(), 49, "{rest}");
            assert!(well_formed(secret.expose()));
            assert_eq!(shown_prefix(secret.expose()), format!("{prefix}{}", &rest[..8]));
        }
    }

    #[test]
    fn the_parts_are_written_as_others_write_them() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(
            base64url(&counting()),
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
        );
        assert_eq!(
            base64url(&[0xFF; 32]),
            "__________________________________________8"
        );
        assert_eq!(base64url(&[0xFB, 0xEF, 0xBE]), "----");
        assert_eq!(checksum(""), "000000");
        assert_eq!(
            Secret::of(SecretKind::Token, &counting()).expose(),
            "tgt_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh81LAtWU"
        );
    }

    #[test]
    fn any_random_part_is_recognised() {
        // Underscores and hyphens belong to base64url, and the prefixes have underscores themselves.
        for byte in 0..=255 {
            for kind in SecretKind::ALL {
                let secret = Secret::of(kind, &[byte; 32]);
                assert!(well_formed(secret.expose()), "{}", secret.expose());
            }
        }
    }

    #[test]
    fn a_changed_character_is_noticed_wherever_it_is() {
        for kind in SecretKind::ALL {
            let secret = Secret::of(kind, &counting());
            let secret = secret.expose();
            for place in 0..secret.len() {
                for other in (0..128).map(char::from).chain(['é', '…']) {
                    let mut changed = secret.to_owned();
                    changed.replace_range(place..=place, other.encode_utf8(&mut [0; 4]));
                    assert_eq!(well_formed(&changed), changed == secret, "{changed}");
                }
                let mut without = secret.to_owned();
                without.remove(place);
                assert!(!well_formed(&without), "{without}");
            }
        }
    }

    #[test]
    fn what_was_not_made_here_is_not_well_formed_and_not_shown() {
        let token = Secret::of(SecretKind::Token, &counting());
        let token = token.expose();
        let mut foreign = token.replacen("tgt", "ghp", 1);
        foreign.truncate(foreign.len() - CHECKSUM_CHARACTERS);
        foreign.push_str(&checksum(&foreign));
        let mut spaced = format!("tgt_{}", " ".repeat(RANDOM_CHARACTERS));
        spaced.push_str(&checksum(&spaced));
        let as_key = token.replacen("tgt", "tgk_live", 1);
        let (before, after) = (format!(" {token}"), format!("{token}\n"));
        for text in [
            "",
            "tgt",
            "tgt_",
            "tgk_live_",
            "tgk_",
            "…",
            &foreign,
            &spaced,
            &as_key,
            &before,
            &after,
        ] {
            assert!(!well_formed(text), "{text}");
            assert_eq!(shown_prefix(text), "", "{text}");
        }
    }

    #[test]
    fn debug_hides_the_secret() {
        let secret = Secret::make(SecretKind::LiveKey).unwrap();
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "Secret(…) Some(Secret(…))"
        );
    }

    #[test]
    fn two_secrets_differ() {
        let one = Secret::make(SecretKind::Token).unwrap();
        let other = Secret::make(SecretKind::Token).unwrap();
        assert_ne!(one.expose(), other.expose());
        let (one, other) = (SecretHash::of(one.expose()), SecretHash::of(other.expose()));
        assert_ne!(one, other);
        assert!(!one.matches(&other));
    }

    #[test]
    fn a_hash_is_sha_256_and_read_as_it_is_shown() {
        let hash = SecretHash::of("abc");
        let shown = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), shown);
        assert_eq!(format!("{hash:?}"), format!("SecretHash({shown})"));
        for text in [shown.to_owned(), shown.to_uppercase()] {
            let read: SecretHash = text.parse().unwrap();
            assert_eq!(read, hash);
            assert!(read.matches(&hash));
        }
    }

    #[test]
    fn a_hash_that_differs_in_one_bit_does_not_match() {
        let hash = SecretHash::of("abc");
        for place in 0..256 {
            let mut other = hash;
            other.0[place / 8] ^= 1 << (place % 8);
            assert!(!hash.matches(&other) && hash != other, "{place}");
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        let hash = SecretHash::of("abc").to_string();
        let signed = hash.replacen("ba", "+a", 1);
        let wide = hash.replacen("ba", "é", 1);
        for text in [
            "",
            "ab",
            &hash[1..],
            &hash[2..],
            &format!("{hash}00"),
            &signed,
            &wide,
        ] {
            assert_eq!(text.parse::<SecretHash>(), Err(NotAHash), "{text}");
        }
        assert_eq!(NotAHash.to_string(), "a secret's hash is 64 hexadecimal digits");
    }
}
