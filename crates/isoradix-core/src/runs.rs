//! Storage of the runs: tokens and device slots of every node, in two parallel slabs.
//!
//! A run occupies consecutive granules; a granule is one page. Tokens take four bytes each. Paged KV pools give the
//! tokens of a page consecutive slots, so a page's slots are stored as the first one, four bytes a *page*; a page whose
//! slots are not consecutive spills to a cell of its own, marked by the top bit (which is why slot ids stay below 2^31).
//! Splitting a run moves nothing: the two halves are two ranges of granules, freed one by one.
//!
//! A third slab has the host page of each granule. It takes no memory until something is on host.

use crate::error::Error;
use crate::extent::ExtentAllocator;
use crate::hash::RunHasher;
use crate::ints::{Ints, Part, SLOTS, TOKENS};
use crate::limits::SLOT_LIMIT;

/// Tokens taken in at a time: what was written is hashed while it is in the innermost cache.
const PIECE: usize = 128 * RunHasher::BLOCK;

/// Marks a page whose slots are in a spill cell.
const SPILLED: u32 = 1 << 31;
const _: () = assert!(SPILLED as u64 == SLOT_LIMIT);

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
    /// One word a granule, meaningful where a node is on host; as long as the last granule that ever was.
    host: Vec<u32>,
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
            host: Vec::new(),
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
    /// Refuses values out of range, and then holds nothing of them.
    pub(crate) fn store(&mut self, tokens: Part<'_>, slots: Part<'_>) -> Result<Run, Error> {
        let length = tokens.values.len();
        let pages = length / self.page;
        debug_assert!(pages > 0 && length == pages * self.page && slots.values.len() == length);
        let pages = u32::try_from(pages).expect("room was checked");
        self.flush();
        let start = self.extents.alloc(pages).expect("room was checked");
        let (content, tokens_seen) = self.write_tokens(start as usize * self.page, tokens.values);
        let slots_seen = self.write_slots(start as usize, slots.values);
        if TOKENS.admits(tokens_seen) && SLOTS.admits(slots_seen) {
            return Ok(Run { start, pages, content });
        }
        self.release(start, pages);
        tokens.values.check(&TOKENS, tokens.offset)?;
        Err(slots.values.first_outside(&SLOTS, slots.offset))
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

    /// Writes the slots of whole pages; the words before must not be spilled ones.
    pub(crate) fn write_slots(&mut self, start: usize, slots: Ints<'_>) -> u64 {
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

    /// Stores whole pages of tokens that have no slots; room has been checked. Refuses tokens out of range.
    pub(crate) fn store_without_slots(&mut self, tokens: Part<'_>) -> Result<Run, Error> {
        tokens.values.check(&TOKENS, tokens.offset)?;
        let pages = u32::try_from(tokens.values.len() / self.page).expect("room was checked");
        self.flush();
        let start = self.extents.alloc(pages).expect("room was checked");
        let (content, _) = self.write_tokens(start as usize * self.page, tokens.values);
        let end = (start + pages) as usize;
        if self.slots.len() < end {
            self.slots.resize(end, 0);
        }
        self.slots[start as usize..end].fill(0);
        Ok(Run { start, pages, content })
    }

    /// The slots of a run are no longer its own.
    pub(crate) fn clear_slots(&mut self, start: u32, pages: u32) {
        self.free_spilled(start, pages);
        self.slots[start as usize..(start + pages) as usize].fill(0);
    }

    /// Writes the host pages of a run.
    pub(crate) fn write_host_pages(&mut self, start: u32, pages: &[u32]) {
        if self.host.len() < self.slots.len() {
            self.host.resize(self.slots.len(), 0);
        }
        self.host[start as usize..start as usize + pages.len()].copy_from_slice(pages);
    }

    /// The host pages of a run that is on host.
    #[inline]
    pub(crate) fn host_pages(&self, start: u32, pages: u32) -> &[u32] {
        &self.host[start as usize..(start + pages) as usize]
    }

    fn free_spilled(&mut self, start: u32, pages: u32) {
        if self.page > 1 && !self.spill.is_empty() {
            let words = &self.slots[start as usize..(start + pages) as usize];
            self.free_cells.extend(words.iter().filter(|word| **word & SPILLED != 0).map(|word| word & !SPILLED));
        }
    }

    /// Gives back the granules of a run, or of a part of one.
    pub(crate) fn release(&mut self, start: u32, pages: u32) {
        self.free_spilled(start, pages);
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
                #[expect(clippy::cast_possible_wrap, reason = "a page has at most 1024 tokens")]
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
        let words = [&self.tokens, &self.slots, &self.spill, &self.free_cells, &self.host];
        words.into_iter().map(|slab| slab.capacity() * size_of::<u32>()).sum::<usize>() + self.extents.memory_bytes()
    }

    /// Checks the storage against the runs of all nodes: granules and spill cells have one owner each.
    pub(crate) fn check(&self, mut owned: Vec<OwnedRun>) -> Result<(), Error> {
        self.extents.check().map_err(|what| Error::invariant(what, vec![]))?;
        let top = self.extents.top() as usize;
        if (self.tokens.len(), self.slots.len()) != (top * self.page, top) {
            let (tokens, pages) = (self.tokens.len(), self.slots.len());
            let what = format!("slabs of {tokens} tokens and {pages} pages under {top} granules");
            return Err(Error::invariant(what, vec![]));
        }
        owned.sort_unstable_by_key(|run| run.start);
        for pair in owned.windows(2) {
            if pair[0].start + pair[0].pages > pair[1].start {
                let what = format!("runs overlap at granule {}", pair[1].start);
                return Err(Error::invariant(what, vec![pair[0].node, pair[1].node]));
            }
        }
        let total: u64 = owned.iter().map(|run| u64::from(run.pages)).sum();
        if total != u64::from(self.used_pages()) {
            let what = format!("runs have {total} pages, storage counts {}", self.used_pages());
            return Err(Error::invariant(what, vec![]));
        }
        self.check_cells(&owned)
    }

    /// Every spill cell belongs to one page of one run, or is free.
    fn check_cells(&self, owned: &[OwnedRun]) -> Result<(), Error> {
        // Sequence number of the node that owns a cell, 0 for a free one.
        let mut owners = vec![None; self.spill.len() / self.page];
        let of_pages = owned.iter().flat_map(|run| {
            let words = &self.slots[run.start as usize..(run.start + run.pages) as usize];
            let spilled = words.iter().filter(|word| self.page > 1 && **word & SPILLED != 0);
            spilled.map(|word| (word & !SPILLED, run.node))
        });
        for (cell, node) in self.free_cells.iter().map(|cell| (*cell, 0)).chain(of_pages) {
            let concerned = |nodes: [u64; 2]| nodes.into_iter().filter(|node| *node != 0).collect();
            let Some(owner) = owners.get_mut(cell as usize) else {
                return Err(Error::invariant(format!("spill cell {cell} does not exist"), concerned([node, 0])));
            };
            if let Some(other) = owner.replace(node) {
                return Err(Error::invariant(format!("spill cell {cell} has two owners"), concerned([other, node])));
            }
        }
        match owners.iter().position(Option::is_none) {
            Some(cell) => Err(Error::invariant(format!("spill cell {cell} has no owner"), vec![])),
            None => Ok(()),
        }
    }
}

/// The granules of one node, for checking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnedRun {
    pub(crate) start: u32,
    pub(crate) pages: u32,
    /// Sequence number of the node.
    pub(crate) node: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(values: Ints<'_>) -> Part<'_> {
        Part { values, offset: 0 }
    }

    #[test]
    fn consecutive_and_scattered_pages_come_back_as_given() {
        let mut store = RunStore::new(4);
        let tokens: Vec<u32> = (100..112).collect();
        let slots = [8, 9, 10, 11, 7, 5, 3, 1, 40, 41, 42, 43];
        let run = store.store(part(Ints::U32(&tokens)), part(Ints::I64(&slots))).unwrap().start;
        let mut out = Vec::new();
        store.append_slots(run, 3, &mut out);
        assert_eq!(out, slots);
        assert_eq!(store.tokens(run + 1, 2), &tokens[4..]);
        store.release(run + 1, 1);
        assert_eq!(store.free_cells, [0]);
        let again = store.store(part(Ints::U32(&tokens[..4])), part(Ints::I32(&[1, 2, 3, 5]))).unwrap().start;
        out.clear();
        store.append_slots(again, 1, &mut out);
        assert_eq!(out, [1, 2, 3, 5]);
        assert_eq!(store.spill.len(), 4);
        let owned =
            [(run, 1, 1), (again, 1, 2), (run + 2, 1, 3)].map(|(start, pages, node)| OwnedRun { start, pages, node });
        store.check(owned.to_vec()).unwrap();
    }

    #[test]
    fn values_out_of_range_leave_nothing_behind() {
        for page in [1, 4] {
            let mut store = RunStore::new(page);
            let good = [1, 2, 3, 4];
            for bad in [-1, 1 << 31, 1 << 40] {
                let slots = [5, 6, bad, 8];
                let slots = Part { values: Ints::I64(&slots), offset: 10 };
                let error = store.store(part(Ints::I64(&good)), slots).unwrap_err();
                assert!(
                    matches!(error, Error::OutOfRange { what: "slot", index: Some(12), value, .. } if value == i128::from(bad))
                );
            }
            let tokens = Part { values: Ints::I64(&[1, 2, 3, -4]), offset: 20 };
            let error = store.store(tokens, part(Ints::I64(&good))).unwrap_err();
            assert!(matches!(error, Error::OutOfRange { what: "token", index: Some(23), value: -4, .. }));
            assert_eq!(store.used_pages(), 0);
            store.check(vec![]).unwrap();
        }
    }

    #[test]
    fn check_names_the_owners_of_a_cell() {
        let mut store = RunStore::new(2);
        let tokens = [1, 2, 3, 4];
        let run = store.store(part(Ints::I64(&tokens)), part(Ints::I64(&[9, 7, 5, 3]))).unwrap().start;
        let owned = vec![OwnedRun { start: run, pages: 1, node: 6 }, OwnedRun { start: run + 1, pages: 1, node: 8 }];
        store.check(owned.clone()).unwrap();
        let broken = |store: &RunStore| store.check(owned.clone()).unwrap_err();
        store.free_cells.push(1);
        assert_eq!(broken(&store), Error::invariant("spill cell 1 has two owners", vec![8]));
        store.free_cells.clear();
        store.slots[run as usize] = store.slots[run as usize + 1];
        assert_eq!(broken(&store), Error::invariant("spill cell 1 has two owners", vec![6, 8]));
        store.slots[run as usize] = 5;
        assert_eq!(broken(&store), Error::invariant("spill cell 0 has no owner", vec![]));
        store.slots[run as usize] = SPILLED | 2;
        assert_eq!(broken(&store), Error::invariant("spill cell 2 does not exist", vec![6]));
    }
}
