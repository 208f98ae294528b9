//! A page where it lies: pieces of memory that are one page in this order.
//!
//! In a layer-first pool a page has a piece for each layer and part, in a page-first pool one.

use std::io::{IoSlice, IoSliceMut};

/// Pieces that are written.
#[derive(Debug)]
pub struct PageMut<'a> {
    pieces: Vec<&'a mut [u8]>,
}

/// Pieces that are read.
#[derive(Debug)]
pub struct PageRef<'a> {
    pieces: Vec<&'a [u8]>,
}

impl<'a> PageMut<'a> {
    /// A page of these pieces.
    #[must_use]
    pub fn new(pieces: Vec<&'a mut [u8]>) -> Self {
        Self { pieces }
    }

    /// Bytes of the page.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// The page in chunks of about `size` bytes, each of few or many pieces.
    pub(crate) fn chunks(self, size: usize) -> Vec<Vec<IoSliceMut<'a>>> {
        let mut cut = Cut::new(size);
        for piece in self.pieces {
            let mut rest = piece;
            while !rest.is_empty() {
                let (taken, left) = rest.split_at_mut(cut.room(rest.len()));
                cut.push(IoSliceMut::new(taken), |slice| slice.len());
                rest = left;
            }
        }
        cut.chunks
    }
}

impl<'a> PageRef<'a> {
    /// A page of these pieces.
    #[must_use]
    pub fn new(pieces: Vec<&'a [u8]>) -> Self {
        Self { pieces }
    }

    /// Bytes of the page.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// The pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        self.pieces.iter().copied()
    }

    /// As of [`PageMut`].
    pub(crate) fn chunks(&self, size: usize) -> Vec<Vec<IoSlice<'a>>> {
        let mut cut = Cut::new(size);
        for piece in &self.pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, left) = rest.split_at(cut.room(rest.len()));
                cut.push(IoSlice::new(taken), |slice| slice.len());
                rest = left;
            }
        }
        cut.chunks
    }
}

/// Slices that one call of the system takes.
const SLICES_MAX: usize = 512;

/// Cuts slices into chunks.
struct Cut<S> {
    chunks: Vec<Vec<S>>,
    size: usize,
    /// Bytes of the last chunk.
    filled: usize,
}

impl<S> Cut<S> {
    fn new(size: usize) -> Self {
        Self { chunks: vec![], size, filled: size }
    }

    /// How much of so many bytes goes into the next slice.
    fn room(&mut self, bytes: usize) -> usize {
        if self.filled == self.size || self.chunks.last().is_none_or(|chunk| chunk.len() == SLICES_MAX) {
            self.chunks.push(vec![]);
            self.filled = 0;
        }
        bytes.min(self.size - self.filled)
    }

    fn push(&mut self, slice: S, bytes: impl FnOnce(&S) -> usize) {
        self.filled += bytes(&slice);
        self.chunks.last_mut().expect("room has made one").push(slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_the_page() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for (piece, size) in [(5000, 1024), (16, 1024), (700, 1024), (1, 100), (1024, 1024), (3, 4096)] {
            let page = PageRef::new(bytes.chunks(piece).collect());
            let chunks = page.chunks(size);
            assert!(chunks.iter().all(|chunk| chunk.len() <= SLICES_MAX));
            assert!(chunks.iter().all(|chunk| chunk.iter().map(|slice| slice.len()).sum::<usize>() <= size));
            let joined: Vec<u8> = chunks.iter().flatten().flat_map(|slice| slice.iter().copied()).collect();
            assert_eq!(joined, bytes, "pieces of {piece}, chunks of {size}");
        }
    }

    #[test]
    fn empty_pieces_and_pages() {
        assert!(PageRef::new(vec![&[], &[]]).chunks(8).is_empty());
        assert_eq!(PageRef::new(vec![&[], &[1], &[]]).chunks(8).len(), 1);
        assert_eq!(PageMut::new(vec![&mut [1, 2, 3][..]]).bytes(), 3);
    }
}
