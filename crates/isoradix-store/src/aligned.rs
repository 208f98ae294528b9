//! Memory that direct I/O takes: it begins at a multiple of a disk's block.

/// A multiple of every disk's block.
pub(crate) const ALIGN: usize = 4096;

/// Zeroed bytes from an aligned address on.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        assert!(start <= ALIGN, "bytes can be aligned");
        Self { bytes, start, length }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned() {
        for length in [0, 1, ALIGN, 3 * ALIGN + 1] {
            let mut memory = Aligned::new(length);
            assert_eq!(memory.bytes().len(), length);
            assert_eq!(memory.bytes().as_ptr().addr() % ALIGN, 0);
        }
    }
}
