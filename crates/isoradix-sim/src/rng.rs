//! Randomness: a stream for what is made up front, and keyed rolls for what happens in a run.
//!
//! A roll depends on the seed and on what it is for, never on how often anything was rolled before. So a run with one fault less
//! differs from the other only by what that fault did, which is what shrinking lives on.

/// The finaliser of splitmix64.
fn scramble(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// One word out of two, well mixed.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    scramble(a.rotate_left(23) ^ scramble(b.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(a))
}

/// What a roll is for. Adding a purpose leaves the rolls of all others as they are.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(crate) enum Purpose {
    Hop = 1,
    Reap,
    Poll,
    Forward,
    VoteLatency,
    VotePause,
    CopyPage,
    CopyFails,
    Query,
    Put,
    Patience,
    Meddle,
    Wobble,
    Progress,
    Memory,
    State,
    Jitter,
    Read,
    Open,
    Fate,
    Measure,
}

/// The roll for a purpose and up to three numbers that say which.
pub(crate) fn roll(seed: u64, purpose: Purpose, of: [u64; 3]) -> u64 {
    of.iter().fold(mix(seed, purpose as u64), |word, &number| mix(word, number))
}

/// A word as a number below `bound`, as good as evenly.
pub(crate) fn below(word: u64, bound: u64) -> u64 {
    let wide = u128::from(word) * u128::from(bound);
    u64::try_from(wide >> 64).unwrap_or_default()
}

/// A stream of random words: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed, stream))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let word = self.word();
        below(word, bound)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index below `bound`.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or_default()
    }

    /// Whether something happens that happens so many times in a thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rolls_depend_on_everything_they_are_told() {
        let base = roll(1, Purpose::Hop, [2, 3, 4]);
        assert_eq!(base, roll(1, Purpose::Hop, [2, 3, 4]));
        let others = [
            roll(2, Purpose::Hop, [2, 3, 4]),
            roll(1, Purpose::Reap, [2, 3, 4]),
            roll(1, Purpose::Hop, [3, 2, 4]),
            roll(1, Purpose::Hop, [2, 3, 5]),
        ];
        assert!(others.iter().all(|other| *other != base));
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_them() {
        let mut rng = Rng::new(7, 0);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.within(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        let mut items: Vec<u32> = (0..20).collect();
        rng.shuffle(&mut items);
        let mut sorted = items.clone();
        sorted.sort_unstable();
        assert!(items != sorted && sorted == (0..20).collect::<Vec<u32>>());
    }
}
