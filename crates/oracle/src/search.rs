//! The search for the first moment of something that stays true.

/// No wait is longer: 10^15 tokens that come back one a year take less than 2^105 nanoseconds.
const LONGEST: u128 = 1 << 120;

/// The least number for which `holds`, which stays true once it is. Steps that double away from `guess`
/// bracket the answer, halving finds it; a guess that is far off costs time and nothing else.
///
/// # Panics
/// If it holds for no number within reach, since the caller has promised that it does.
pub(crate) fn least(guess: u128, holds: impl Fn(u128) -> bool) -> u128 {
    let guess = guess.min(LONGEST);
    let (mut fails, mut holding) = if holds(guess) {
        let mut holding = guess;
        let mut step = 1;
        loop {
            if holding == 0 {
                return 0;
            }
            let below = guess.saturating_sub(step);
            if !holds(below) {
                break (below, holding);
            }
            holding = below;
            step *= 2;
        }
    } else {
        let mut fails = guess;
        let mut step = 1;
        loop {
            assert!(step <= LONGEST, "waiting was said to help, but does not");
            let above = guess + step;
            if holds(above) {
                break (fails, above);
            }
            fails = above;
            step *= 2;
        }
    };
    while holding - fails > 1 {
        let middle = fails + (holding - fails) / 2;
        if holds(middle) {
            holding = middle;
        } else {
            fails = middle;
        }
    }
    holding
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn every_guess_finds_the_same_answer() {
        for answer in [0, 1, 2, 3, 1_000, 1 << 100] {
            for guess in [0, 1, 2, 999, 1_000, 1_001, 1 << 99, (1 << 100) + 1, u128::MAX] {
                assert_eq!(least(guess, |number| number >= answer), answer);
            }
        }
    }
}
