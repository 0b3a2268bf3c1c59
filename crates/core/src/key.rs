//! The identity of a counter: a keyed 128-bit hash of what it counts.
//!
//! Ids are hashed under a secret seed in two independent lanes of 64 bits, so that nobody outside can
//! construct two that meet; composing hashed ids is then a cheap mix. Were two counters ever to meet, they
//! would share one count: less is admitted, never more. Among ten million counters the chance that any two
//! share the 96 bits a store keeps is below 10^-14 (docs/adr/0002-counter-keys.md).

/// The secret under which ids are hashed: two words for each lane.
#[derive(Debug, Clone, Copy)]
pub struct KeySeed([u64; 4]);

/// A hashed id: an org, an app, an address, a policy's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct IdHash(u64, u64);

impl KeySeed {
    /// A secret that is made of two words. Whatever they are, it has bits all over.
    pub const fn new(one: u64, two: u64) -> Self {
        Self([
            spread(one ^ 0x243f_6a88_85a3_08d3),
            spread(two ^ 0x1319_8a2e_0370_7344),
            spread(one.rotate_left(32) ^ 0xa409_3822_299f_31d0),
            spread(two.rotate_left(32) ^ 0x082e_fa98_ec4e_6c89),
        ])
    }

    /// Its words, for whoever makes other secrets of it.
    pub fn words(self) -> [u64; 4] {
        self.0
    }

    /// Hashes one id. Most are short: two words hold them, and both lanes are made of the same two.
    #[inline]
    pub fn id(&self, bytes: &[u8]) -> IdHash {
        match ends(bytes) {
            Some(ends) => self.short(ends, bytes.len()),
            None => self.long(bytes),
        }
    }

    /// Half of the secret is turned by the length, so that texts of different lengths with the same ends have different
    /// hashes.
    #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
    #[inline]
    fn short(&self, (first, last): (u64, u64), length: usize) -> IdHash {
        let [a, b, c, d] = self.0;
        let turned = |word: u64| word.rotate_right(length as u32);
        IdHash(
            folded(first ^ a, last ^ turned(b)),
            folded(first ^ c, last ^ turned(d)),
        )
    }

    /// The same for longer ones, block by block, and once more at the end: what the last block makes of the others is not
    /// spread over all bits yet. The last block begins before the one before it has ended, so that all are of one size.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "below 64")]
    fn long(&self, bytes: &[u8]) -> IdHash {
        let [a, b, c, d] = self.0;
        let turned = |word: u64| word.rotate_right((bytes.len() % 64) as u32);
        let (one, two) = (turned(b), turned(d));
        let (blocks, _) = bytes.as_chunks();
        let before_last = bytes.len().saturating_sub(1) / BLOCK_BYTES;
        let blocks = blocks.iter().take(before_last).chain(bytes.last_chunk());
        let (mut first_lane, mut second_lane) = (a, c);
        for block in blocks {
            let (first, last) = words(block);
            first_lane = folded(first ^ first_lane, last ^ one);
            second_lane = folded(first ^ second_lane, last ^ two);
        }
        IdHash(
            folded(first_lane ^ b, 0x9e37_79b9_7f4a_7c15),
            folded(second_lane ^ d, 0xd1b5_4a32_d192_ed03),
        )
    }
}

const BLOCK_BYTES: usize = 16;

#[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
#[inline]
fn words(block: &[u8; BLOCK_BYTES]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

/// Each bit of a word spread over all of another.
const fn spread(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The first and the last bytes of a text of at most 16, which are all that it has.
#[inline]
fn ends(bytes: &[u8]) -> Option<(u64, u64)> {
    if bytes.len() > BLOCK_BYTES {
        return None;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last)));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return Some((
            u32::from_le_bytes(*first).into(),
            u32::from_le_bytes(*last).into(),
        ));
    }
    let &[first, .., last] = bytes else {
        return Some((bytes.first().map_or(0, |only| u64::from(*only)), 0));
    };
    Some((
        first.into(),
        u64::from(bytes[bytes.len() / 2]) << 8 | u64::from(last),
    ))
}

impl IdHash {
    /// The hash of the same id in a world of its own.
    #[must_use]
    pub fn apart(self) -> Self {
        Self(
            self.0 ^ 0x5851_f42d_4c95_7f2d,
            self.1.rotate_left(17) ^ 0x1405_7b7e_f767_814f,
        )
    }

    /// The hash of the same id in the world of another.
    #[must_use]
    pub fn within(self, world: Self) -> Self {
        let key = CounterKey::new(self).and(world);
        Self(key.0, key.1)
    }

    /// 64 bits of it, for tables and shards.
    #[inline]
    pub fn short(self) -> u64 {
        self.0
    }
}

/// The identity of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterKey(u64, u64);

impl CounterKey {
    /// The key of a counter that needs nothing but its name.
    #[inline]
    pub fn new(counter: IdHash) -> Self {
        Self(counter.0, counter.1)
    }

    /// Narrows the key to one value of one more dimension. The order of dimensions matters.
    #[must_use]
    #[inline]
    pub fn and(self, id: IdHash) -> Self {
        Self(
            folded(self.0 ^ id.0, 0x9e37_79b9_7f4a_7c15).wrapping_add(id.1),
            folded(self.1 ^ id.1, 0xd1b5_4a32_d192_ed03).wrapping_add(id.0),
        )
    }

    /// Where the counter lives when no org owns it.
    #[inline]
    pub fn home(self) -> u64 {
        self.0
    }

    /// The 96 bits under which a store keeps it; they place it in a table, too.
    #[expect(clippy::cast_possible_truncation, reason = "half of a word is left out")]
    #[inline]
    pub fn identity(self) -> Identity {
        Identity {
            word: self.1,
            half: self.0 as u32,
        }
    }
}

/// 96 bits of a counter's key: a word and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// The word.
    pub word: u64,
    /// The half.
    pub half: u32,
}

#[expect(clippy::cast_possible_truncation, reason = "a product is folded into 64 bits")]
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Ids as people make them: numbered, alike but for one character, of few letters, and the same ends around
    /// different middles or at different lengths.
    fn ids() -> HashSet<Vec<u8>> {
        let mut ids = HashSet::new();
        for number in 0..40_000 {
            for id in [
                format!("{number}"),
                format!("key-{number:08}"),
                format!("{number:016}"),
                format!("u{number}x"),
                format!("org-{number}-of-the-western-region"),
            ] {
                ids.insert(id.into_bytes());
            }
        }
        for length in 0..=40 {
            ids.insert(vec![b'a'; length]);
            for at in 0..length {
                let mut id = vec![b'a'; length];
                id[at] = b'b';
                ids.insert(id);
            }
        }
        for one in 0..=u8::MAX {
            ids.insert(vec![one]);
            ids.extend((0..=u8::MAX).map(|two| vec![one, two]));
            ids.extend((b'a'..=b'z').map(|two| vec![one, two, two]));
        }
        ids
    }

    #[test]
    fn no_two_ids_share_a_lane() {
        let ids = ids();
        for seed in [KeySeed::new(0, 0), KeySeed::new(1, 2), KeySeed::new(u64::MAX, 7)] {
            let hashes: Vec<IdHash> = ids.iter().map(|id| seed.id(id)).collect();
            let lane = |of: fn(&IdHash) -> u64| hashes.iter().map(of).collect::<HashSet<u64>>().len();
            assert_eq!(lane(|hash| hash.0), ids.len());
            assert_eq!(lane(|hash| hash.1), ids.len());
        }
    }

    type Bits = fn(IdHash, CounterKey) -> u64;

    /// The first bits choose a shard, the last ones a bucket; of a counter's key each half of a word places something.
    #[test]
    fn ids_are_spread_evenly() {
        let ids = ids();
        let seed = KeySeed::new(5, 9);
        let org = seed.id(b"acme");
        let bits: [(&str, Bits); 5] = [
            ("an org's shard", |id, _| id.short() >> 56),
            ("an org's bucket", |id, _| id.short() & 0xff),
            ("the half", |_, key| u64::from(key.identity().half >> 24)),
            ("the word's first bits", |_, key| key.identity().word >> 56),
            ("the word's last bits", |_, key| key.identity().word & 0xff),
        ];
        for (name, of) in bits {
            let mut counts = [0_usize; 256];
            for id in &ids {
                let id = seed.id(id);
                let key = CounterKey::new(seed.id(b"key-burst")).and(org).and(id);
                counts[usize::try_from(of(id, key)).unwrap()] += 1;
            }
            // The sum of squares over the mean has a mean of 255 and a deviation of 23 if all is chance.
            let mean = ids.len() / 256;
            let squares: usize = counts.iter().map(|count| count.abs_diff(mean).pow(2)).sum();
            assert!(
                (130..=400).contains(&(squares / mean)),
                "{name}: {}",
                squares / mean
            );
        }
    }

    /// Nothing but the secret and the id goes into it, in whatever process.
    #[test]
    fn a_hash_is_the_same_everywhere() {
        let seed = KeySeed::new(1, 2);
        for (id, one, two) in [
            ("", 0xaab3_5cdc_43b3_f422, 0x44b3_af75_27c8_f8b8),
            ("acme", 0xf038_45bb_2fc4_6f2d, 0x5e6f_abef_4334_fe49),
            ("0123456789abcdef", 0x934a_4714_aa82_4265, 0x6cfc_59af_9da3_bc7e),
            ("0123456789abcdefg", 0x4baa_9441_bd2d_b149, 0xc3ff_d3ec_6603_2ed2),
            (
                "0123456789abcdef0123456789abcdef",
                0x743c_1ce4_9c48_70b2,
                0x8ad3_7c39_700b_39df,
            ),
        ] {
            let IdHash(first, second) = seed.id(id.as_bytes());
            assert_eq!((first, second), (one, two), "{id}: {first:#x}, {second:#x}");
        }
    }

    #[test]
    fn other_secrets_make_other_hashes() {
        for id in [
            &b""[..],
            b"a",
            b"acme",
            b"key-00000007",
            b"0123456789abcdef",
            b"longer than that, by a little",
            b"an id that is much longer than any that an org would think of for its keys, users or apps",
        ] {
            let hash = KeySeed::new(1, 2).id(id);
            for other in [KeySeed::new(2, 1), KeySeed::new(1, 3), KeySeed::new(3, 2)] {
                assert!(hash.0 != other.id(id).0 && hash.1 != other.id(id).1, "{id:?}");
            }
        }
    }
}
