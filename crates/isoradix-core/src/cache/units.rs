//! A key as the tree sees it: a sequence of units.

use crate::error::Error;
use crate::ints::{Ints, TOKENS};

/// A key taken apart: in bigram mode the first token, and the second one of each pair; else just the tokens.
#[derive(Clone, Copy)]
pub(super) struct Units<'a> {
    pub(super) first_token: Option<u32>,
    pub(super) all: Ints<'a>,
    /// Units in whole pages.
    pub(super) end: usize,
}

impl<'a> Units<'a> {
    /// Refuses a first token out of range in bigram mode: it is stored by itself. The others are left for later.
    pub(super) fn of(key: Ints<'a>, page: usize, bigram: bool) -> Result<Self, Error> {
        let whole = |units: usize| units / page * page;
        if !bigram || key.is_empty() {
            return Ok(Self { first_token: None, all: key, end: whole(key.len()) });
        }
        key.slice(0, 1).check(&TOKENS, 0)?;
        let first_token = Some(u32::try_from(key.wide(0)).expect("checked just above"));
        let all = key.slice(1, key.len());
        Ok(Self { first_token, all, end: whole(all.len()) })
    }

    /// Where the units begin in the key.
    pub(super) fn offset(&self) -> usize {
        usize::from(self.first_token.is_some())
    }

    pub(super) fn pages(&self, page: usize) -> usize {
        self.end / page
    }

    /// In bigram mode the first token of the pair at unit `at`.
    pub(super) fn token_before(&self, at: usize) -> Option<u64> {
        if at == 0 { self.first_token.map(u64::from) } else { Some(self.all.wide(at - 1)) }
    }

    /// Refuses tokens out of range from unit `from` on. What was compared equal to stored tokens is known to be in range.
    #[inline]
    pub(super) fn check_from(&self, from: usize) -> Result<(), Error> {
        self.all.slice(from, self.all.len()).check(&TOKENS, self.offset() + from)
    }
}
