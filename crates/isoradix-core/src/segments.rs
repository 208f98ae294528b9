//! Memory that grows and never moves: words by granule, in segments.
//!
//! A new segment is a quarter of all memory so far, so growing copies nothing, and at most a fifth lies idle. Its memory
//! comes zeroed, and takes room in the machine as it is written. Between two segments lies one address that is
//! nobody's, the *fence*: granules on both sides of it are no neighbours.
//!
//! Segments begin at multiples of a *chunk* of addresses, so that two array accesses find a granule's words.

/// Words of a chunk, at least: where there is little memory yet, it should not be in pieces.
const WORDS_MIN: usize = 16 * 1024;

/// Zeroed memory by granule; see the module's notes.
pub(crate) struct Segments {
    /// Words in a granule.
    words: usize,
    /// A chunk has two to this power of addresses.
    chunk_bits: u32,
    /// The segment of each chunk.
    chunks: Vec<u32>,
    memory: Vec<Segment>,
    /// Past the last address.
    end: u32,
}

struct Segment {
    start: u32,
    words: Box<[u32]>,
}

impl Segments {
    /// No memory yet.
    pub(crate) fn new(words: usize) -> Self {
        let chunk_bits = WORDS_MIN.div_ceil(words).next_power_of_two().ilog2();
        Self { words, chunk_bits, chunks: Vec::new(), memory: Vec::new(), end: 0 }
    }

    /// Adds a segment of at least `len` granules, and gives its first address; `None` if it would end past `limit`.
    pub(crate) fn add(&mut self, len: u32, limit: u32) -> Option<u32> {
        let start = self.next_start()?;
        let end = self.end_of(start, len.max(self.end / 4), limit).or_else(|| self.end_of(start, len, limit))?;
        let segment = u32::try_from(self.memory.len()).expect("fewer than addresses");
        self.chunks.resize((end >> self.chunk_bits) as usize + 1, segment);
        self.memory.push(Segment { start, words: vec![0; (end - start) as usize * self.words].into() });
        self.end = end;
        Some(start)
    }

    /// Whether a segment of at least `len` granules can be added.
    pub(crate) fn has_room(&self, len: u32, limit: u32) -> bool {
        self.next_start().is_some_and(|start| self.end_of(start, len, limit).is_some())
    }

    fn next_start(&self) -> Option<u32> {
        if self.end == 0 { Some(0) } else { self.end.checked_add(1) }
    }

    /// Where a segment ends that has `len` granules and the fence, in whole chunks.
    fn end_of(&self, start: u32, len: u32, limit: u32) -> Option<u32> {
        let chunks = (u64::from(len) + 1).div_ceil(1 << self.chunk_bits);
        let end = u64::from(start) + (chunks << self.chunk_bits) - 1;
        u32::try_from(end).ok().filter(|end| *end <= limit)
    }

    /// Past the last address.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Addresses that are nobody's.
    pub(crate) fn fences(&self) -> impl Iterator<Item = u32> + '_ {
        self.memory.iter().skip(1).map(|segment| segment.start - 1)
    }

    /// The words of granules that lie in one segment.
    #[inline]
    pub(crate) fn of(&self, start: u32, granules: u32) -> &[u32] {
        let segment = &self.memory[self.chunks[(start >> self.chunk_bits) as usize] as usize];
        let at = (start - segment.start) as usize * self.words;
        &segment.words[at..at + granules as usize * self.words]
    }

    /// The same, to be written.
    #[inline]
    pub(crate) fn of_mut(&mut self, start: u32, granules: u32) -> &mut [u32] {
        let segment = &mut self.memory[self.chunks[(start >> self.chunk_bits) as usize] as usize];
        let at = (start - segment.start) as usize * self.words;
        &mut segment.words[at..at + granules as usize * self.words]
    }

    /// Bytes of the heap that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = self.memory.iter().map(|segment| segment.words.len()).sum();
        let books = self.memory.capacity() * size_of::<Segment>();
        (words + self.chunks.capacity()) * size_of::<u32>() + books
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_quarter_or_what_is_asked_for_and_nothing_moves() {
        let mut segments = Segments::new(64);
        assert_eq!((segments.add(10, 50_000), segments.end()), (Some(0), 255));
        segments.of_mut(254, 1).fill(7);
        assert_eq!((segments.add(4_000, 50_000), segments.end()), (Some(256), 256 + 4_095));
        assert_eq!((segments.add(1, 50_000), segments.end()), (Some(4_352), 4_352 + 1_279));
        assert_eq!(segments.fences().collect::<Vec<_>>(), [255, 4_351]);
        segments.of_mut(256, 1).fill(9);
        segments.of_mut(4_350, 1).fill(8);
        assert_eq!((segments.of(253, 2)[63], segments.of(253, 2)[64]), (0, 7));
        assert_eq!((segments.of(256, 1)[0], segments.of(4_350, 1)[63], segments.of(4_352, 1)[0]), (9, 8, 0));
        let words = (255 + 4_095 + 1_279) * 64;
        assert!((4 * words..4 * words + 400).contains(&segments.memory_bytes()));
    }

    #[test]
    fn the_address_space_ends() {
        let mut segments = Segments::new(64);
        assert_eq!((segments.add(10, 254), segments.add(10, 255), segments.end()), (None, Some(0), 255));
        assert!(!segments.has_room(1, 510) && segments.has_room(255, 511) && !segments.has_room(256, 511));
        assert_eq!((segments.add(1, 510), segments.add(1, 511), segments.end()), (None, Some(256), 511));
        assert_eq!((segments.add(u32::MAX, u32::MAX), segments.has_room(u32::MAX, u32::MAX)), (None, false));
    }
}
