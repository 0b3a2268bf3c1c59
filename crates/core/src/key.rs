//! The identity of a counter: a keyed 128-bit hash of what it counts.
//!
//! Ids are hashed under a secret seed in two independent lanes of 64 bits, so that nobody outside can
//! construct two that meet; composing hashed ids is then a cheap mix. Were two counters ever to meet, they
//! would share one count: less is admitted, never more. Among ten million counters the chance that any two
//! share the 96 bits a store keeps is below 10^-14 (docs/adr/0002-counter-keys.md).

use std::hash::{BuildHasher, Hasher};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// The secret under which ids are hashed.
#[derive(Debug, Clone, Copy)]
pub struct KeySeed(pub u64, pub u64);

/// A hashed id: an org, an app, an address, a policy's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdHash(u64, u64);

impl KeySeed {
    /// Hashes one id.
    #[inline]
    pub fn id(self, bytes: &[u8]) -> IdHash {
        let shared = SharedSeed::global_random();
        let lane = |seed: u64| {
            let state = SeedableRandomState::with_seed(seed, shared);
            let mut hasher = state.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        IdHash(lane(self.0), lane(self.1))
    }
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
    #[expect(clippy::cast_possible_truncation, reason = "words are cut into their halves")]
    #[inline]
    pub fn identity(self) -> [u32; 3] {
        [self.0 as u32, self.1 as u32, (self.1 >> 32) as u32]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a product is folded into 64 bits")]
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}
