//! A set of ends of a run of pages.

/// Ends at which a prefix is usable, in pages from the start of a run. The first one is 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Ends {
    /// A bit an end, from 1 on.
    words: Vec<u64>,
}

impl Ends {
    /// The deepest end that is not beyond a bound; 0 if there is none.
    #[must_use]
    pub fn deepest(&self, not_beyond: u32) -> u32 {
        let (mut at, bits) = (not_beyond as usize / 64, not_beyond % 64);
        let mut mask = u64::MAX >> (63 - bits);
        if at >= self.words.len() {
            let Some(last) = self.words.len().checked_sub(1) else { return 0 };
            (at, mask) = (last, u64::MAX);
        }
        loop {
            let word = self.words[at] & mask;
            if word != 0 {
                // The set was made of numbers of 32 bits.
                return u32::try_from(at * 64).unwrap_or(u32::MAX) + word.ilog2();
            }
            let Some(before) = at.checked_sub(1) else { return 0 };
            (at, mask) = (before, u64::MAX);
        }
    }

    /// Those beyond so many pages.
    pub(crate) fn beyond(mut self, pages: u32) -> Self {
        for (word, begin) in self.words.iter_mut().zip((0_u32..).step_by(64)) {
            let below = pages.saturating_add(1).saturating_sub(begin).min(64);
            *word &= u64::MAX.checked_shl(below).unwrap_or(0);
        }
        self
    }

    pub(crate) fn insert(&mut self, end: u32) {
        let at = end as usize / 64;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (end % 64);
    }
}

impl FromIterator<u32> for Ends {
    fn from_iter<I: IntoIterator<Item = u32>>(all: I) -> Self {
        let mut ends = Self::default();
        all.into_iter().for_each(|end| ends.insert(end));
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_end_is_found_across_words() {
        let ends: Ends = [1, 63, 64, 130].into_iter().collect();
        let deepest =
            [0, 1, 2, 62, 63, 64, 127, 128, 129, 130, 131, 191, 192, u32::MAX].map(|bound| ends.deepest(bound));
        assert_eq!(deepest, [0, 1, 1, 1, 63, 64, 64, 64, 64, 130, 130, 130, 130, 130]);
        assert_eq!(Ends::default().deepest(7), 0);
        let beyond = [0, 1, 62, 63, 64, 129, 130, u32::MAX].map(|pages| ends.clone().beyond(pages));
        let all = [1, 63, 64, 130].map(|end| beyond.iter().filter(|left| left.deepest(end) == end).count());
        assert_eq!(all, [1, 3, 4, 6], "each is beyond all that is less");
    }
}
