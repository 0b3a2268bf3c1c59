//! Chance that is the same for the same seed.

/// A stream of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x6a09_e667_f3bc_c908);
        random.next();
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number from `first` to `last`.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// A number from `first` to `last`, small ones as likely as large ones.
    pub fn scaled(&mut self, first: u64, last: u64) -> u64 {
        let bits = |number: u64| u64::from(u64::BITS - number.leading_zeros());
        let most = self.within(bits(first), bits(last));
        let most = if most >= 63 { u64::MAX } else { (1 << most) - 1 };
        self.within(first, most.clamp(first, last))
    }

    /// Whether something happens that happens so many times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// One of several, each so many times as likely as another.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut place = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in from {
            if place < *weight {
                return *one;
            }
            place -= weight;
        }
        from[0].1
    }

    /// A place among so many.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }
}
