//! Storage of the runs: tokens of every node, its slots where it is on the device, its pages where it is on host.
//!
//! A run occupies consecutive granules; a granule is one page. Tokens take four bytes each; slots and host pages take four
//! bytes for every page, or every sixteen if pages are smaller, while they are consecutive (see [`Ids`]). Splitting a run
//! moves nothing: the two halves are two ranges of granules, freed one by one.

use crate::error::Error;
use crate::extent::{ExtentAllocator, LIMIT};
use crate::hash::RunHasher;
use crate::ids::Ids;
use crate::ints::{Ints, Part, SLOTS, TOKENS};
use crate::residency::Residency;

/// Tokens taken in at a time: what was written is hashed while it is in the innermost cache.
const PIECE: usize = 128 * RunHasher::BLOCK;

/// Where a run is stored, and the hash of its tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) pages: u32,
    pub(crate) content: u64,
}

/// Tokens, slots and host pages of all nodes.
pub(crate) struct RunStore {
    page: usize,
    /// Tokens, `page` words a granule.
    extents: ExtentAllocator,
    /// Released granules that wait for a neighbour: start and length. An eviction often frees one run after another in
    /// order of address, and then frees them here as one.
    released: (u32, u32),
    /// Of granules on the device.
    slots: Ids,
    /// Of granules on host.
    host: Ids,
}

impl RunStore {
    pub(crate) fn new(page_size: u32) -> Self {
        let page = page_size as usize;
        Self { page, extents: ExtentAllocator::new(page), released: (0, 0), slots: Ids::new(page), host: Ids::new(1) }
    }

    /// Refuses when so many pages might not fit.
    pub(crate) fn ensure_room(&self, pages: usize) -> Result<(), Error> {
        if u32::try_from(pages).is_ok_and(|pages| self.extents.has_room(pages)) {
            return Ok(());
        }
        Err(Error::Capacity { what: "stored pages", limit: LIMIT.into() })
    }

    /// Stores whole pages of tokens and as many slots, in one pass over each; room has been checked.
    ///
    /// Refuses values out of range, and then holds nothing of them.
    pub(crate) fn store(&mut self, tokens: Part<'_>, slots: Part<'_>) -> Result<Run, Error> {
        debug_assert_eq!(tokens.values.len(), slots.values.len());
        let (run, tokens_seen) = self.take_in(tokens.values);
        let slots_seen = self.slots.write(run.start, slots.values);
        if TOKENS.admits(tokens_seen) && SLOTS.admits(slots_seen) {
            return Ok(run);
        }
        self.slots.release(run.start, run.pages);
        self.release(run.start, run.pages);
        tokens.values.check(&TOKENS, tokens.offset)?;
        Err(slots.values.first_outside(&SLOTS, slots.offset))
    }

    /// Stores whole pages of tokens that have no slots; room has been checked. Refuses tokens out of range.
    pub(crate) fn store_without_slots(&mut self, tokens: Part<'_>) -> Result<Run, Error> {
        tokens.values.check(&TOKENS, tokens.offset)?;
        Ok(self.take_in(tokens.values).0)
    }

    /// The stored run, and the OR of its tokens, sign-extended.
    fn take_in(&mut self, tokens: Ints<'_>) -> (Run, u64) {
        debug_assert!(!tokens.is_empty() && tokens.len().is_multiple_of(self.page));
        let pages = u32::try_from(tokens.len() / self.page).expect("room was checked");
        self.flush();
        let start = self.extents.alloc(pages).expect("room was checked");
        let words = self.extents.words_mut(start, pages);
        let (mut hasher, mut seen) = (RunHasher::new(), 0);
        for from in (0..tokens.len()).step_by(PIECE) {
            let to = tokens.len().min(from + PIECE);
            seen |= tokens.slice(from, to).write_to(&mut words[from..to]);
            hasher.update(&words[from..to]);
        }
        (Run { start, pages, content: hasher.finish() }, seen)
    }

    /// Gives slots, which have been checked, to a run that has none.
    pub(crate) fn write_slots(&mut self, start: u32, slots: Ints<'_>) {
        self.slots.write(start, slots);
    }

    /// Appends the slots of a run on the device to `out`.
    pub(crate) fn append_slots(&self, start: u32, pages: u32, out: &mut Vec<i64>) {
        self.slots.append(start, pages, out);
    }

    /// A run leaves the device.
    pub(crate) fn release_slots(&mut self, start: u32, pages: u32) {
        self.slots.release(start, pages);
    }

    /// Gives host pages to a run that has none.
    pub(crate) fn write_host_pages(&mut self, start: u32, pages: &[u32]) {
        self.host.write(start, Ints::U32(pages));
    }

    /// Appends the host pages of a run on host to `out`.
    pub(crate) fn append_host_pages(&self, start: u32, pages: u32, out: &mut Vec<u32>) {
        self.host.append(start, pages, out);
    }

    /// A run leaves host.
    pub(crate) fn release_host_pages(&mut self, start: u32, pages: u32) {
        self.host.release(start, pages);
    }

    /// Gives back the granules of a run that is in no tier any more, or of a part of one.
    pub(crate) fn release(&mut self, start: u32, pages: u32) {
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
        self.extents.words(start, pages)
    }

    /// Granules in use.
    pub(crate) fn used_pages(&self) -> u32 {
        self.extents.used() - self.released.1
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.extents.memory_bytes() + self.slots.memory_bytes() + self.host.memory_bytes()
    }

    /// Checks the storage against the runs of all nodes: granules have one owner each, and ids where they are in a tier.
    pub(crate) fn check(&self, mut owned: Vec<OwnedRun>) -> Result<(), Error> {
        self.extents.check().map_err(|what| Error::invariant(what, vec![]))?;
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
        let in_tier = |in_it: fn(Residency) -> bool| {
            let runs = owned.iter().filter(move |run| in_it(run.residency));
            runs.map(|run| (run.start, run.pages, run.node))
        };
        self.slots.check(in_tier(Residency::on_device))?;
        self.host.check(in_tier(Residency::on_host))
    }
}

/// The granules of one node, for checking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnedRun {
    pub(crate) start: u32,
    pub(crate) pages: u32,
    pub(crate) residency: Residency,
    /// Sequence number of the node.
    pub(crate) node: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(values: Ints<'_>) -> Part<'_> {
        Part { values, offset: 0 }
    }

    fn slots_of(store: &RunStore, start: u32, pages: u32) -> Vec<i64> {
        let mut out = Vec::new();
        store.append_slots(start, pages, &mut out);
        out
    }

    #[test]
    fn consecutive_and_scattered_pages_come_back_as_given() {
        for page in [1, 4, 16] {
            let mut store = RunStore::new(page);
            let tokens: Vec<u32> = (100..100 + 3 * page).collect();
            let slots: Vec<i64> = (0..3 * i64::from(page)).map(|at| 8 + at * (1 + at / 6 % 3)).collect();
            let run = store.store(part(Ints::U32(&tokens)), part(Ints::I64(&slots))).unwrap().start;
            assert_eq!(slots_of(&store, run, 3), slots);
            let one = page as usize;
            assert_eq!(store.tokens(run + 1, 2), &tokens[one..]);
            store.write_host_pages(run + 1, &[70, 5]);
            store.release_slots(run + 1, 1);
            store.release_host_pages(run + 1, 1);
            store.release(run + 1, 1);
            let other: Vec<i32> = (0..page).map(|at| i32::try_from(at * at).unwrap() + 1).collect();
            let again = store.store(part(Ints::U32(&tokens[..one])), part(Ints::I32(&other))).unwrap().start;
            assert_eq!(again, run + 1);
            assert_eq!(slots_of(&store, again, 1), other.iter().map(|slot| i64::from(*slot)).collect::<Vec<_>>());
            let mut pages = Vec::new();
            store.append_host_pages(run + 2, 1, &mut pages);
            assert_eq!((slots_of(&store, run, 1), pages), (slots[..one].to_vec(), vec![5]));
            let (device, both) = (Residency::DEVICE, Residency::DEVICE.with(Residency::HOST));
            let owned = [(run, device, 1), (again, device, 2), (run + 2, both, 3)]
                .map(|(start, residency, node)| OwnedRun { start, pages: 1, residency, node });
            store.check(owned.to_vec()).unwrap();
            let wrong = owned.map(|run| OwnedRun { residency: device, ..run });
            let what = "id cell 0 counts 1 granules, found 0";
            assert_eq!(
                store.check(wrong.to_vec()).unwrap_err(),
                Error::invariant(what, vec![0]),
                "not said to be on host"
            );
        }
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
}
