//! Device slots: which are free, and which an allocation gets.
//!
//! Whole pages only. A stack of free page numbers gives O(1) per page, a bitmap tells what is free, and nothing
//! is allocated after construction but what `out` needs.
//!
//! Order: a new pool hands out its lowest pages first; after that the page freed last goes first, and pages freed
//! by one call come back in the order in which that call named them, so runs of slots stay runs. The order depends
//! on the calls alone.

use crate::error::Error;
use crate::ints::Ints;
use crate::limits::{PAGE_SIZE_MAX, SLOT_LIMIT};
use std::ops::RangeInclusive;

/// A deterministic, page-granular allocator of device slots; see the module's notes for its order.
#[derive(Debug)]
pub struct SlotPool {
    first_slot: u64,
    num_slots: u64,
    page_size: u32,
    /// Numbers of the free pages; the last one goes first.
    stack: Vec<u32>,
    /// One bit per page, set while the page is free.
    free: Vec<u64>,
}

impl SlotPool {
    /// A pool of the slots `first_slot..first_slot + num_slots`, all free.
    ///
    /// # Errors
    /// If a value is out of range or the slots are not whole pages.
    pub fn new(num_slots: u64, page_size: u32, first_slot: u64) -> Result<Self, Error> {
        in_range(
            "page_size",
            page_size.into(),
            1..=PAGE_SIZE_MAX.into(),
            "choose the page size of the attention kernel",
        )?;
        in_range("num_slots", num_slots, 1..=SLOT_LIMIT, "a slot is a 31-bit number, and a pool has one at least")?;
        in_range("first_slot", first_slot, 0..=SLOT_LIMIT - num_slots, "first_slot + num_slots is at most 2^31")?;
        whole_pages("num_slots", num_slots, page_size)?;
        let mut pool = Self { first_slot, num_slots, page_size, stack: Vec::new(), free: Vec::new() };
        let pages = (narrow(num_slots) / page_size) as usize;
        Error::make_room(&mut pool.stack, pages, "the free pages of a pool")?;
        Error::make_room(&mut pool.free, pages.div_ceil(64), "the free pages of a pool")?;
        pool.reset();
        Ok(pool)
    }

    /// Appends `tokens` slots to `out`: whole pages, the slots of each page in order.
    ///
    /// # Errors
    /// If `tokens` are not whole pages or more than are available.
    pub fn alloc(&mut self, tokens: u64, out: &mut Vec<i64>) -> Result<(), Error> {
        whole_pages("num_tokens", tokens, self.page_size)?;
        let available = self.available();
        let Some(left) = available.checked_sub(tokens) else {
            return Err(Error::OutOfSlots { requested: tokens, available });
        };
        let left = (narrow(left) / self.page_size) as usize;
        Error::make_room(out, (self.stack.len() - left) * self.page_size as usize, "slots")?;
        for &page in self.stack[left..].iter().rev() {
            self.free[page as usize / 64] &= !(1 << (page % 64));
            let start = (self.first_slot + u64::from(page) * u64::from(self.page_size)).cast_signed();
            out.extend(start..start + i64::from(self.page_size));
        }
        self.stack.truncate(left);
        Ok(())
    }

    /// Gives whole pages back, each as its slots in order.
    ///
    /// # Errors
    /// If a slot is not of this pool, not in its place in a page, or free already. Then none is freed.
    pub fn free(&mut self, slots: Ints<'_>) -> Result<(), Error> {
        match slots {
            Ints::I32(slots) => self.free_all(slots),
            Ints::U32(slots) => self.free_all(slots),
            Ints::I64(slots) => self.free_all(slots),
        }
    }

    /// Frees every slot; the order begins anew.
    pub fn reset(&mut self) {
        let pages = narrow(self.num_slots) / self.page_size;
        self.stack.clear();
        self.stack.extend((0..pages).rev());
        self.free.clear();
        self.free.resize(pages.div_ceil(64) as usize, u64::MAX);
    }

    /// Slots that are free.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.stack.len() as u64 * u64::from(self.page_size)
    }

    /// Slots of the pool, free or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.num_slots
    }

    /// Slots of one page.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// The lowest slot.
    #[must_use]
    pub fn first_slot(&self) -> u64 {
        self.first_slot
    }

    /// Whether `slot` is of this pool and free.
    #[must_use]
    pub fn is_free(&self, slot: u64) -> bool {
        let offset = slot.wrapping_sub(self.first_slot);
        offset < self.num_slots && self.is_page_free(narrow(offset) / self.page_size)
    }

    /// Frees page by page, which finds a page that is named twice, and takes all back if one cannot be freed.
    fn free_all<T: Copy + Into<i64>>(&mut self, slots: &[T]) -> Result<(), Error> {
        whole_pages("len(slots)", slots.len() as u64, self.page_size)?;
        let before = self.stack.len();
        for (i, page) in slots.chunks_exact(self.page_size as usize).enumerate() {
            if let Err(error) = self.free_page(page, i * self.page_size as usize) {
                self.take_back(before);
                return Err(self.with_origin(error));
            }
        }
        self.stack[before..].reverse();
        Ok(())
    }

    /// Frees one page, given its slots and the index of the first of them.
    #[inline]
    fn free_page<T: Copy + Into<i64>>(&mut self, slots: &[T], at: usize) -> Result<(), Error> {
        let start: i64 = slots[0].into();
        let offset = start.wrapping_sub(self.first_slot.cast_signed()).cast_unsigned();
        if offset >= self.num_slots || !count_up(slots) {
            return Err(self.misplaced(slots, at));
        }
        let (page, place) = (narrow(offset) / self.page_size, narrow(offset) % self.page_size);
        if place != 0 {
            return Err(self.misplaced(slots, at));
        }
        if self.is_page_free(page) {
            return Err(Error::DoubleFree { slot: start.cast_unsigned(), within_call: false });
        }
        self.free[page as usize / 64] |= 1 << (page % 64);
        self.stack.push(page);
        Ok(())
    }

    #[inline]
    fn is_page_free(&self, page: u32) -> bool {
        self.free[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// Undoes what a call freed until then: the pages on the stack from `before` on.
    #[cold]
    fn take_back(&mut self, before: usize) {
        for page in self.stack.drain(before..) {
            self.free[page as usize / 64] &= !(1 << (page % 64));
        }
    }

    /// Says whether a slot was freed by the refused call itself: then, with all taken back, it is not free.
    #[cold]
    fn with_origin(&self, error: Error) -> Error {
        match error {
            Error::DoubleFree { slot, .. } => Error::DoubleFree { slot, within_call: !self.is_free(slot) },
            other => other,
        }
    }

    /// Why these slots are not a page of this pool.
    #[cold]
    fn misplaced<T: Copy + Into<i64>>(&self, slots: &[T], at: usize) -> Error {
        let (first, size) = (self.first_slot.cast_signed(), i64::from(self.page_size));
        let end = (self.first_slot + self.num_slots).cast_signed();
        let values = || slots.iter().map(|&slot| slot.into());
        if let Some(i) = values().position(|slot: i64| !(first..end).contains(&slot)) {
            return Error::OutOfRange {
                what: "slot",
                value: slots[i].into().into(),
                min: first.into(),
                max: (end - 1).into(),
                index: Some(at + i),
                hint: "free only slots that this pool handed out",
            };
        }
        let start: i64 = slots[0].into();
        let expected = (start - (start - first) % size..).zip(values());
        let (i, (due, slot)) =
            expected.enumerate().find(|(_, (due, slot))| due != slot).expect("slots that are a page are not refused");
        Error::Invalid {
            what: format!("slot {slot} at index {} is not in its place, expected {due} of a page of {size}", at + i),
            hint: "free whole pages, each as its slots in order",
        }
    }
}

fn in_range(what: &'static str, value: u64, range: RangeInclusive<u64>, hint: &'static str) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = (i128::from(*range.start()), i128::from(*range.end()));
    Err(Error::OutOfRange { what, value: value.into(), min, max, index: None, hint })
}

fn whole_pages(what: &'static str, slots: u64, page_size: u32) -> Result<(), Error> {
    if slots.is_multiple_of(page_size.into()) {
        return Ok(());
    }
    Err(Error::Invalid {
        what: format!("{what} = {slots} is not a multiple of page_size {page_size}"),
        hint: "slots are handed out and given back in whole pages",
    })
}

/// Whether each slot is one more than the one before. Looks at all of them, which makes it vector code.
#[inline]
fn count_up<T: Copy + Into<i64>>(slots: &[T]) -> bool {
    let steps = slots.windows(2).fold(0, |other, pair| other | (pair[1].into().wrapping_sub(pair[0].into()) ^ 1));
    steps == 0
}

/// A slot offset or page number, which is below 2^31, as the integer that divides fastest.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "checked by the constructor or by comparing with num_slots")]
fn narrow(offset: u64) -> u32 {
    offset as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::testing::SplitMix64;

    fn taken(pool: &mut SlotPool, tokens: u64) -> Vec<i64> {
        let mut out = Vec::new();
        pool.alloc(tokens, &mut out).unwrap();
        out
    }

    /// A call that must be refused with this text and change nothing.
    fn refused(pool: &mut SlotPool, slots: &[i64], kind: ErrorKind, text: &str) {
        let before = (pool.stack.clone(), pool.free.clone());
        let error = pool.free(Ints::I64(slots)).unwrap_err();
        assert_eq!((error.kind(), error.to_string().lines().next()), (kind, Some(text)));
        assert_eq!((&pool.stack, &pool.free), (&before.0, &before.1));
    }

    #[test]
    fn behaves_as_a_list_of_pages() {
        for (seed, pages, size) in [(1, 5, 1), (2, 70, 1), (3, 130, 4), (4, 64, 16)] {
            let (mut random, first) = (SplitMix64(seed), 3);
            let mut pool = SlotPool::new(pages as u64 * size as u64, u32::try_from(size).unwrap(), first).unwrap();
            let page_of = |page: usize| (0..size).map(move |i| (3 + page * size + i).try_into().unwrap());
            let (mut free, mut owned): (Vec<usize>, Vec<usize>) = ((0..pages).collect(), Vec::new());
            for _ in 0..2_000 {
                let count = random.index(4);
                if random.index(2) == 0 && count <= free.len() {
                    let pages: Vec<usize> = free.drain(..count).collect();
                    let slots: Vec<i64> = pages.iter().flat_map(|&page| page_of(page)).collect();
                    assert_eq!(taken(&mut pool, (count * size) as u64), slots);
                    owned.extend(pages);
                } else if count <= owned.len() {
                    let pages: Vec<usize> = (0..count).map(|_| owned.swap_remove(random.index(owned.len()))).collect();
                    let slots: Vec<i64> = pages.iter().flat_map(|&page| page_of(page)).collect();
                    pool.free(Ints::I64(&slots)).unwrap();
                    free.splice(..0, pages);
                }
                assert_eq!(pool.available(), (free.len() * size) as u64);
                let page = random.index(pages);
                assert!(page_of(page).all(|slot: i64| pool.is_free(slot.cast_unsigned()) == free.contains(&page)));
            }
        }
    }

    #[test]
    fn a_new_pool_hands_out_its_lowest_pages_and_any_width_comes_back() {
        let mut pool = SlotPool::new(8, 2, 10).unwrap();
        assert_eq!(taken(&mut pool, 8), [10, 11, 12, 13, 14, 15, 16, 17]);
        pool.free(Ints::I32(&[14, 15, 10, 11])).unwrap();
        pool.free(Ints::U32(&[12, 13])).unwrap();
        assert_eq!(taken(&mut pool, 6), [12, 13, 14, 15, 10, 11]);
        assert!(!pool.is_free(9) && !pool.is_free(18) && !pool.is_free(u64::MAX));
        pool.reset();
        assert_eq!((pool.available(), pool.total(), pool.page_size(), pool.first_slot()), (8, 8, 2, 10));
        assert_eq!(taken(&mut pool, 2), [10, 11]);
        pool.free(Ints::I64(&[])).unwrap();
    }

    #[test]
    fn a_refused_free_changes_nothing() {
        use ErrorKind::{DoubleFree, InvalidInput};
        let mut pool = SlotPool::new(16, 4, 100).unwrap();
        let slots = taken(&mut pool, 12);
        let twice: Vec<i64> = slots[4..8].iter().chain(&slots[..8]).copied().collect();
        refused(&mut pool, &twice, DoubleFree, "slot 104 is freed twice in one call");
        let free: Vec<i64> = (100..104).chain(112..116).collect();
        refused(&mut pool, &free, DoubleFree, "slot 112 is free already");
        refused(&mut pool, &slots[..3], InvalidInput, "len(slots) = 3 is not a multiple of page_size 4");
        let place = |slot, index, due| {
            format!("slot {slot} at index {index} is not in its place, expected {due} of a page of 4")
        };
        refused(&mut pool, &[100, 101, 102, 103, 105, 106, 107, 108], InvalidInput, &place(105, 4, 104));
        refused(&mut pool, &[100, 101, 103, 102], InvalidInput, &place(103, 2, 102));
        for (slot, index) in [(99, 0), (116, 0), (-1, 0), (1 << 32, 2), (i64::MIN, 3), (i64::MAX, 0)] {
            let mut slots = [100, 101, 102, 103];
            slots[index] = slot;
            let text = format!("slot {slot} at index {index} is out of range: 100 to 115");
            refused(&mut pool, &slots, InvalidInput, &text);
        }
        pool.free(Ints::I64(&slots)).unwrap();
        assert_eq!(pool.available(), 16);
    }

    #[test]
    fn a_refused_alloc_changes_nothing() {
        let mut pool = SlotPool::new(8, 4, 0).unwrap();
        let mut out = vec![7];
        let error = pool.alloc(12, &mut out).unwrap_err();
        assert_eq!(error, Error::OutOfSlots { requested: 12, available: 8 });
        assert_eq!(pool.alloc(6, &mut out).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!((out, pool.available()), (vec![7], 8));
    }

    #[test]
    fn limits_of_a_pool() {
        let refused = [(0, 1, 0), (8, 0, 0), (2048, 2048, 0), (9, 2, 0), (1, 1, 1 << 31), (8, 1, u64::MAX)];
        for (num_slots, page_size, first_slot) in refused.into_iter().chain([((1 << 31) + 1, 1, 0)]) {
            let error = SlotPool::new(num_slots, page_size, first_slot).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{num_slots} {page_size} {first_slot}");
        }
        let mut pool = SlotPool::new(1024, 1024, (1 << 31) - 1024).unwrap();
        assert_eq!(taken(&mut pool, 1024).last(), Some(&0x7fff_ffff));
    }
}
