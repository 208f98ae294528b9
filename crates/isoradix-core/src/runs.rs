//! Storage of the runs: tokens and device slots of every node, in two parallel slabs.
//!
//! A run occupies consecutive granules; a granule is one page. Tokens take four bytes each. Paged KV pools give the
//! tokens of a page consecutive slots, so a page's slots are stored as the first one, four bytes a *page*; a page whose
//! slots are not consecutive spills to a cell of its own, marked by the top bit (which is why slot ids stay below 2^31).
//! Splitting a run moves nothing: the two halves are two ranges of granules, freed one by one.

use crate::error::Error;
use crate::extent::ExtentAllocator;
use crate::hash::RunHasher;
use crate::ints::{Ints, SLOTS, TOKENS};

/// Tokens taken in at a time: what was written is hashed while it is in the innermost cache.
const PIECE: usize = 128 * RunHasher::BLOCK;

/// Marks a page whose slots are in a spill cell.
const SPILLED: u32 = 1 << 31;

/// Where a run is stored, and the hash of its tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) pages: u32,
    pub(crate) content: u64,
}

/// Tokens and slots of all nodes.
pub(crate) struct RunStore {
    page: usize,
    extents: ExtentAllocator,
    /// Released granules that wait for a neighbour: start and length. An eviction often frees one run after another in
    /// order of address, and then frees them here as one.
    released: (u32, u32),
    /// `page` words a granule.
    tokens: Vec<u32>,
    /// One word a granule: the page's first slot, or `SPILLED | cell`.
    slots: Vec<u32>,
    spill: Vec<u32>,
    free_cells: Vec<u32>,
}

impl RunStore {
    pub(crate) fn new(page_size: u32) -> Self {
        Self {
            page: page_size as usize,
            extents: ExtentAllocator::new(),
            released: (0, 0),
            tokens: Vec::new(),
            slots: Vec::new(),
            spill: Vec::new(),
            free_cells: Vec::new(),
        }
    }

    /// Refuses when so many pages might not fit.
    pub(crate) fn ensure_room(&self, pages: usize) -> Result<(), Error> {
        let limit = u64::from(u32::MAX) - 1;
        if u64::from(self.extents.top()) + pages as u64 > limit {
            return Err(Error::Capacity { what: "stored pages", limit });
        }
        Ok(())
    }

    /// Stores whole pages of tokens and as many slots, in one pass over each; room has been checked.
    ///
    /// Refuses values out of range, and then holds nothing of them. The offsets are where the parts begin in the caller's
    /// sequences, for the message.
    pub(crate) fn store(
        &mut self,
        (tokens, token_offset): (Ints<'_>, usize),
        (slots, slot_offset): (Ints<'_>, usize),
    ) -> Result<Run, Error> {
        let pages = tokens.len() / self.page;
        debug_assert!(pages > 0 && tokens.len() == pages * self.page && slots.len() == tokens.len());
        let pages = u32::try_from(pages).expect("room was checked");
        self.flush();
        let start = self.extents.alloc(pages).expect("room was checked");
        let (content, tokens_seen) = self.write_tokens(start as usize * self.page, tokens);
        let slots_seen = self.write_slots(start as usize, slots);
        if TOKENS.admits(tokens_seen) && SLOTS.admits(slots_seen) {
            return Ok(Run { start, pages, content });
        }
        self.release(start, pages);
        tokens.check(&TOKENS, token_offset)?;
        Err(slots.first_outside(&SLOTS, slot_offset))
    }

    fn write_tokens(&mut self, at: usize, tokens: Ints<'_>) -> (u64, u64) {
        let (mut hasher, mut seen) = (RunHasher::new(), 0);
        for from in (0..tokens.len()).step_by(PIECE) {
            let to = tokens.len().min(from + PIECE);
            seen |= tokens.slice(from, to).write_into(&mut self.tokens, at + from);
            hasher.update(&self.tokens[at + from..at + to]);
        }
        (hasher.finish(), seen)
    }

    fn write_slots(&mut self, start: usize, slots: Ints<'_>) -> u64 {
        if self.page == 1 {
            return slots.write_into(&mut self.slots, start);
        }
        let mut all_seen = 0;
        for (granule, at) in (start..).zip((0..slots.len()).step_by(self.page)) {
            let of_page = slots.slice(at, at + self.page);
            let (first, seen) = of_page.consecutive_from();
            all_seen |= seen;
            // A slot that is out of range must not look like the mark of a spilled page.
            let word = match first.filter(|first| first & SPILLED == 0) {
                Some(first) => first,
                None => SPILLED | self.spill_page(of_page),
            };
            match self.slots.get_mut(granule) {
                Some(old) => *old = word,
                None => self.slots.push(word),
            }
        }
        all_seen
    }

    fn spill_page(&mut self, slots: Ints<'_>) -> u32 {
        let cell = self.free_cells.pop().unwrap_or_else(|| {
            u32::try_from(self.spill.len() / self.page).expect("fewer pages than slots, which are below 2^31")
        });
        slots.write_into(&mut self.spill, cell as usize * self.page);
        cell
    }

    /// Gives back the granules of a run, or of a part of one.
    pub(crate) fn release(&mut self, start: u32, pages: u32) {
        if self.page > 1 && !self.spill.is_empty() {
            let words = &self.slots[start as usize..(start + pages) as usize];
            self.free_cells.extend(words.iter().filter(|word| **word & SPILLED != 0).map(|word| word & !SPILLED));
        }
        let (first, waiting) = self.released;
        if first + waiting == start {
            self.released = (first, waiting + pages);
        } else {
            self.flush();
            self.released = (start, pages);
        }
    }

    /// Frees what waits for a neighbour.
    fn flush(&mut self) {
        let (start, pages) = std::mem::take(&mut self.released);
        if pages > 0 {
            self.extents.free(start, pages);
        }
    }

    /// The tokens of a run.
    #[inline]
    pub(crate) fn tokens(&self, start: u32, pages: u32) -> &[u32] {
        &self.tokens[start as usize * self.page..(start as usize + pages as usize) * self.page]
    }

    /// Appends the slots of a run to `out`.
    pub(crate) fn append_slots(&self, start: u32, pages: u32, out: &mut Vec<i64>) {
        let words = &self.slots[start as usize..start as usize + pages as usize];
        if self.page == 1 {
            out.extend(words.iter().map(|word| i64::from(*word)));
            return;
        }
        out.reserve(words.len() * self.page);
        for word in words {
            if word & SPILLED == 0 {
                let first = i64::from(*word);
                #[allow(clippy::cast_possible_wrap)] // a page has at most 1024 tokens
                out.extend(first..first + self.page as i64);
            } else {
                let cell = (word & !SPILLED) as usize * self.page;
                out.extend(self.spill[cell..cell + self.page].iter().map(|slot| i64::from(*slot)));
            }
        }
    }

    /// Granules in use.
    pub(crate) fn used_pages(&self) -> u32 {
        self.extents.used() - self.released.1
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let words = [&self.tokens, &self.slots, &self.spill, &self.free_cells];
        words.into_iter().map(|slab| slab.capacity() * size_of::<u32>()).sum::<usize>() + self.extents.memory_bytes()
    }

    /// Checks the storage by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.extents.check()?;
        let top = self.extents.top() as usize;
        if (self.tokens.len(), self.slots.len()) != (top * self.page, top) {
            return Err(format!(
                "slabs of {} tokens and {} pages under {top} granules",
                self.tokens.len(),
                self.slots.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_and_scattered_pages_come_back_as_given() {
        let mut store = RunStore::new(4);
        let tokens: Vec<u32> = (100..112).collect();
        let slots = [8, 9, 10, 11, 7, 5, 3, 1, 40, 41, 42, 43];
        let run = store.store((Ints::U32(&tokens), 0), (Ints::I64(&slots), 0)).unwrap().start;
        let mut out = Vec::new();
        store.append_slots(run, 3, &mut out);
        assert_eq!(out, slots);
        assert_eq!(store.tokens(run + 1, 2), &tokens[4..]);
        store.release(run + 1, 1);
        assert_eq!(store.free_cells, [0]);
        let again = store.store((Ints::U32(&tokens[..4]), 0), (Ints::I32(&[1, 2, 3, 5]), 0)).unwrap().start;
        out.clear();
        store.append_slots(again, 1, &mut out);
        assert_eq!(out, [1, 2, 3, 5]);
        assert_eq!(store.spill.len(), 4);
        store.check().unwrap();
    }

    #[test]
    fn values_out_of_range_leave_nothing_behind() {
        for page in [1, 4] {
            let mut store = RunStore::new(page);
            let good = [1, 2, 3, 4];
            for bad in [-1, 1 << 31, 1 << 40] {
                let slots = [5, 6, bad, 8];
                let error = store.store((Ints::I64(&good), 0), (Ints::I64(&slots), 10)).unwrap_err();
                assert!(
                    matches!(error, Error::OutOfRange { what: "slot", index: Some(12), value, .. } if value == i128::from(bad))
                );
            }
            let error = store.store((Ints::I64(&[1, 2, 3, -4]), 20), (Ints::I64(&good), 0)).unwrap_err();
            assert!(matches!(error, Error::OutOfRange { what: "token", index: Some(23), value: -4, .. }));
            assert_eq!(store.used_pages(), 0);
            store.check().unwrap();
        }
    }
}
