//! Numbers that look random, for tests that play many worlds.

/// The same numbers for the same seed.
pub struct Draw(pub u64);

impl Draw {
    /// The next of them, below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}
