//! Chained hashes of pages: a page's hash names all tokens up to its end.
//!
//! SHA-256 over the previous page's 32 bytes and the page's tokens as little-endian words (pairs of words in bigram mode). The
//! first page is chained to a seed, if there is one. `SGLang` hashes pages in the same way, without a seed.

use crate::error::Error;
use crate::ints::{Ints, TOKENS};
use crate::limits::PAGE_SIZE_MAX;
use crate::sha256::Sha256;

/// The hash of a page and of all before it.
pub type PageHash = [u8; 32];

/// The hashes of a key's whole pages, in order.
///
/// A long key can be hashed in parts: `previous` is the last hash of the part before, and the next part begins with the page's
/// first token, which in bigram mode is the second one of the pair before.
///
/// # Errors
/// A token or the page size is out of range.
pub fn page_hashes(
    tokens: Ints<'_>,
    page_size: u32,
    bigram: bool,
    previous: Option<&PageHash>,
) -> Result<Vec<PageHash>, Error> {
    if !(1..=PAGE_SIZE_MAX).contains(&page_size) {
        return Err(Error::OutOfRange {
            what: "page_size",
            value: i128::from(page_size),
            min: 1,
            max: i128::from(PAGE_SIZE_MAX),
            index: None,
            hint: "use the page size of the KV cache",
        });
    }
    tokens.check(&TOKENS, 0)?;
    let mut words = vec![0; tokens.len()];
    tokens.write_to(&mut words);
    let (mut before, units) = match words.split_first() {
        Some((first, rest)) if bigram => (Some(*first), rest),
        _ => (None, &words[..]),
    };
    let mut previous = previous.copied();
    let pages = units.chunks_exact(page_size as usize);
    Ok(pages
        .map(|page| {
            let hash = page_hash(previous.as_ref(), before, page);
            before = before.and(page.last().copied());
            previous = Some(hash);
            hash
        })
        .collect())
}

/// The hash of one page; in bigram mode `token_before` is the first one of its first pair.
pub(crate) fn page_hash(previous: Option<&PageHash>, token_before: Option<u32>, tokens: &[u32]) -> PageHash {
    let mut sha = Sha256::new();
    if let Some(previous) = previous {
        sha.update(previous);
    }
    let mut left = token_before;
    for token in tokens {
        if let Some(first_of_pair) = left {
            sha.update(&first_of_pair.to_le_bytes());
            left = Some(*token);
        }
        sha.update(&token.to_le_bytes());
    }
    sha.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[u32], bigram: bool, previous: Option<&PageHash>) -> Vec<PageHash> {
        page_hashes(Ints::U32(tokens), 4, bigram, previous).unwrap()
    }

    #[test]
    fn parts_of_a_key_go_on() {
        let tokens: Vec<u32> = (5..30).collect();
        for bigram in [false, true] {
            let whole = of(&tokens, bigram, None);
            assert_eq!(whole.len(), 6);
            for cut in 1..6 {
                let rest = of(&tokens[cut * 4..], bigram, Some(&whole[cut - 1]));
                assert_eq!(rest, whole[cut..], "bigram {bigram}, cut {cut}");
            }
        }
    }

    #[test]
    fn whole_pages_only() {
        assert_eq!(of(&[], false, None).len(), 0);
        assert_eq!(of(&[1, 2, 3], false, None).len(), 0);
        assert_eq!(of(&[1, 2, 3, 4], true, None).len(), 0);
        assert_eq!(of(&[1, 2, 3, 4, 5], true, None).len(), 1);
    }

    #[test]
    fn widths_do_not_matter_and_ranges_do() {
        let narrow = of(&[1, 2, 3, u32::MAX], false, None);
        let wide = page_hashes(Ints::I64(&[1, 2, 3, i64::from(u32::MAX)]), 4, false, None).unwrap();
        assert_eq!(narrow, wide);
        for (tokens, page_size) in [(&[1, -1, 2, 3][..], 4), (&[1, 1 << 32, 2, 3], 4), (&[1], 0), (&[1], 1025)] {
            assert!(page_hashes(Ints::I64(tokens), page_size, false, None).is_err());
        }
    }
}
