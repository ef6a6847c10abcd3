//! Random choices that depend only on a seed or on a list.

/// A source of choices.
pub(crate) struct Rng(Source);

enum Source {
    /// xorshift64*, by Vigna.
    Seed(u64),
    /// A list of choices in reverse order, so that a test can shrink a failing list.
    List(Vec<u32>),
}

impl Rng {
    /// Returns random choices from a seed.
    pub(crate) fn new(seed: u64) -> Rng {
        // Neighbouring seeds must not give neighbouring values, and the state must not be zero.
        Rng(Source::Seed(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    /// Returns the choices in a list. Past its end every choice is 0.
    pub(crate) fn of(choices: &[u32]) -> Rng {
        Rng(Source::List(choices.iter().rev().copied().collect()))
    }

    /// Returns 64 random bits, or the list's next value.
    pub(crate) fn word(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                state.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Source::List(left) => left.pop().unwrap_or(0).into(),
        }
    }

    /// Returns an integer below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let word = self.word();
        // The generator's upper bits are the better ones.
        let word = if matches!(self.0, Source::Seed(_)) { word >> 33 } else { word };
        (word % count.max(1) as u64) as usize
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}
