//! Memory that grows and never moves: words by granule, in segments.
//!
//! A new segment is a quarter of all memory so far, so growing copies nothing, and at most a fifth lies idle. Its memory
//! comes zeroed, and takes room in the machine as it is written. Between two segments lies one address that is
//! nobody's, the *fence*: granules on both sides of it are no neighbours.
//!
//! Finding a granule is a binary search over the segments: some ten for a million words, and ten more for each tenfold.

/// Words of the smallest segment: where there is little memory yet, it should not be in pieces.
const WORDS_MIN: usize = 16 * 1024;

/// Zeroed memory by granule; see the module's notes.
pub(crate) struct Segments {
    /// Words in a granule.
    words: usize,
    /// First addresses, in order.
    starts: Vec<u32>,
    memory: Vec<Box<[u32]>>,
    /// Past the last address.
    end: u32,
}

impl Segments {
    /// No memory yet.
    pub(crate) fn new(words: usize) -> Self {
        Self { words, starts: Vec::new(), memory: Vec::new(), end: 0 }
    }

    /// Adds a segment of at least `len` granules, and gives its first address; `None` if it would end past `limit`.
    pub(crate) fn add(&mut self, len: u32, limit: u32) -> Option<u32> {
        let start = if self.end == 0 { 0 } else { self.end.checked_add(1)? };
        let room = limit.checked_sub(start).filter(|room| len <= *room)?;
        let least = u32::try_from(WORDS_MIN.div_ceil(self.words)).unwrap_or(u32::MAX);
        let len = len.max(self.end / 4).max(least).min(room);
        self.starts.push(start);
        self.memory.push(vec![0; len as usize * self.words].into());
        self.end = start + len;
        Some(start)
    }

    /// Past the last address.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Addresses that are nobody's.
    pub(crate) fn fences(&self) -> impl Iterator<Item = u32> + '_ {
        self.starts.iter().skip(1).map(|start| start - 1)
    }

    /// The words of granules that lie in one segment.
    #[inline]
    pub(crate) fn of(&self, start: u32, granules: u32) -> &[u32] {
        let segment = self.segment(start);
        let at = (start - self.starts[segment]) as usize * self.words;
        &self.memory[segment][at..at + granules as usize * self.words]
    }

    /// The same, to be written.
    #[inline]
    pub(crate) fn of_mut(&mut self, start: u32, granules: u32) -> &mut [u32] {
        let segment = self.segment(start);
        let at = (start - self.starts[segment]) as usize * self.words;
        &mut self.memory[segment][at..at + granules as usize * self.words]
    }

    /// Bytes of the heap that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = self.memory.iter().map(|segment| segment.len()).sum();
        let books = self.starts.capacity() * size_of::<u32>() + self.memory.capacity() * size_of::<Box<[u32]>>();
        words * size_of::<u32>() + books
    }

    #[inline]
    fn segment(&self, at: u32) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_quarter_or_what_is_asked_for_and_nothing_moves() {
        let mut segments = Segments::new(64);
        assert_eq!(segments.add(10, 5_000), Some(0));
        segments.of_mut(255, 1).fill(7);
        assert_eq!((segments.end(), segments.add(1_000, 5_000)), (256, Some(257)));
        assert_eq!((segments.end(), segments.add(1, 5_000)), (1_257, Some(1_258)));
        assert_eq!(segments.end(), 1_258 + 1_257 / 4);
        assert_eq!(segments.fences().collect::<Vec<_>>(), [256, 1_257]);
        segments.of_mut(257, 1).fill(9);
        segments.of_mut(1_256, 1).fill(8);
        assert_eq!((segments.of(254, 2)[63], segments.of(254, 2)[64]), (0, 7));
        assert_eq!((segments.of(257, 1)[0], segments.of(1_256, 1)[63], segments.of(1_258, 1)[0]), (9, 8, 0));
        let words = (256 + 1_000 + 314) * 64;
        assert!((4 * words..4 * words + 200).contains(&segments.memory_bytes()));
    }

    #[test]
    fn the_address_space_ends() {
        let mut segments = Segments::new(64);
        assert_eq!((segments.add(10, 9), segments.add(10, 10), segments.end()), (None, Some(0), 10));
        assert_eq!((segments.add(1, 10), segments.add(1, 11), segments.add(1, 12)), (None, None, Some(11)));
        assert_eq!(segments.end(), 12, "no more than there is room for");
    }
}
