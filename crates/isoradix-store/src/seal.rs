//! What is stored behind a page's bytes: it fits only these bytes under this key.

use crate::checksum::Checksum;
use crate::page::PageRef;
use crate::share;

/// Bytes of a seal: magic, version, zeros, length, checksum; little-endian.
pub const SEAL_BYTES: usize = 32;

/// A thread adds up fewer bytes before another one has begun.
const SHARED_BYTES: u64 = 16 << 20;

const MAGIC: [u8; 4] = *b"IRXP";
const VERSION: u16 = 1;

/// The seal of a page under way: fed with its bytes, closed with its key.
#[derive(Clone)]
pub struct Seal {
    sum: Checksum,
    length: u64,
}

impl Default for Seal {
    fn default() -> Self {
        Self::new()
    }
}

impl Seal {
    /// The seal of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self { sum: Checksum::new(), length: 0 }
    }

    /// Takes the next bytes of the page.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// The bytes to be stored, which are the only right ones. The key and the lengths are in the checksum.
    #[must_use]
    pub fn close(mut self, key: &[u8]) -> [u8; SEAL_BYTES] {
        self.sum.update(key);
        self.sum.update(&(key.len() as u64).to_le_bytes());
        self.sum.update(&self.length.to_le_bytes());
        let [low, high] = self.sum.finish();
        let mut seal = [0; SEAL_BYTES];
        seal[..4].copy_from_slice(&MAGIC);
        seal[4..6].copy_from_slice(&VERSION.to_le_bytes());
        seal[8..16].copy_from_slice(&self.length.to_le_bytes());
        seal[16..24].copy_from_slice(&low.to_le_bytes());
        seal[24..].copy_from_slice(&high.to_le_bytes());
        seal
    }

    /// The seal of a whole page.
    #[must_use]
    pub fn of<'a>(key: &[u8], pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; SEAL_BYTES] {
        let mut seal = Self::new();
        pieces.into_iter().for_each(|piece| seal.update(piece));
        seal.close(key)
    }
}

/// The seals of whole pages, each with its key, on several threads if there are many bytes.
#[must_use]
pub fn seals(keys: &[&[u8]], pages: &[PageRef<'_>]) -> Vec<[u8; SEAL_BYTES]> {
    let mut seals = vec![[0; SEAL_BYTES]; pages.len()];
    let items = seals.iter_mut().zip(keys).zip(pages);
    share::share(
        share::threads(),
        pages.iter().map(PageRef::bytes).sum(),
        SHARED_BYTES,
        items,
        |((seal, key), page)| {
            *seal = Seal::of(key, page.pieces());
        },
    );
    seals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_bytes_are_not_confused() {
        let of = |key: &[u8], bytes: &[u8]| Seal::of(key, [bytes]);
        let right = of(b"key", b"bytes");
        assert_ne!(of(b"keyb", b"ytes"), right);
        assert_ne!(of(b"ke", b"ybytes"), right);
        assert_ne!(of(b"bytes", b"key"), right);
        assert_ne!(of(b"kez", b"bytes"), right);
        assert_ne!(of(b"key", b"bytes\0"), right);
    }

    #[test]
    fn many_are_what_each_is() {
        let bytes: Vec<u8> = (0..=250).cycle().take(24 << 20).collect();
        let keys: Vec<[u8; 1]> = (0..48).map(|key| [key]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 1]>::as_slice).collect();
        let pages: Vec<_> = bytes.chunks(512 << 10).map(|page| PageRef::new(page.chunks(50_000).collect())).collect();
        let each: Vec<_> = keys.iter().zip(&pages).map(|(key, page)| Seal::of(key, page.pieces())).collect();
        assert_eq!(seals(&keys, &pages), each);
        assert_eq!(seals(&keys[..1], &pages[..1]), each[..1]);
        assert!(seals(&[], &[]).is_empty());
    }

    #[test]
    fn pieces_are_one_page() {
        assert_eq!(Seal::of(b"k", [&b"ab"[..], b"", b"c"]), Seal::of(b"k", [&b"abc"[..]]));
    }
}
