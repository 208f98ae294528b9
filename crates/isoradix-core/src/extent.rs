//! Runs of granules: who may write where, and the memory that is written.
//!
//! Hands out runs `start..start + len` of one address space that grows at the top. Any part of a run can be
//! freed on its own, since a split node frees its two halves at different times, so the allocator keeps no
//! record of runs at all: only of the holes between them.
//!
//! - Each hole is an entry of an arena, linked into the bin of its size class. Bins are exact below 64
//!   granules, then eight to a power of two; a two-level bitmap names the bins that hold something.
//! - `ends` has one bit per granule, set at the first and the last granule of a hole. The first word of these two
//!   granules, whose memory is nobody's otherwise, is the hole's id: so the two neighbours of a freed run are found
//!   without a search.
//!
//! `alloc` takes a hole of the smallest class in which every hole is large enough; failing that, one of the
//! first few of the request's own class; failing that, it grows the top, and a hole that ends there becomes
//! the beginning of the new run. Where the last segment of memory has no room for it, what is left of that becomes a
//! hole. `free` merges with both neighbours at once, so no two holes ever touch, but over a fence between segments.
//! Both are O(1), and O(granules added / 64) where the top grows. Where a run lies depends on the calls alone.

use crate::segments::Segments;

/// Sizes below this have a bin each.
const EXACT: u32 = 64;

const BINS: usize = 64 + 26 * 8;
const WORDS: usize = BINS.div_ceil(64);

/// How many holes of the request's own class are tried before the top grows.
const TRIES: usize = 8;

/// Addresses there can be, so that the end of every run fits a `u32`.
pub(crate) const LIMIT: u32 = u32::MAX - 1;

const NONE: u32 = u32::MAX;

/// A free run; `prev` and `next` are ids of the same bin.
#[derive(Clone, Copy)]
struct Hole {
    start: u32,
    len: u32,
    prev: u32,
    next: u32,
}

/// An O(1) allocator of runs of granules; see the module's notes.
pub(crate) struct ExtentAllocator {
    holes: Vec<Hole>,
    /// Ids of `holes` that are not in use.
    spare: Vec<u32>,
    memory: Segments,
    /// One bit per granule; see the module's notes.
    ends: Vec<u64>,
    top: u32,
    used: u32,
    /// The first hole of each bin.
    bins: [u32; BINS],
    /// One bit per bin that holds something.
    bitmap: [u64; WORDS],
    /// One bit per word of `bitmap` that is not zero.
    summary: u32,
}

/// The bin for holes of `len` granules.
#[inline]
fn class_of(len: u64) -> usize {
    if len < u64::from(EXACT) {
        return narrow(len);
    }
    let power = len.ilog2();
    let eighth = (len >> (power - 3)) & 7;
    narrow(u64::from(EXACT) + u64::from(power - 6) * 8 + eighth)
}

/// The first bin in which every hole has at least `len` granules; it may be past the last one.
#[inline]
fn fitting_class_of(len: u32) -> usize {
    if len < EXACT { len as usize } else { class_of(u64::from(len) + (1 << (len.ilog2() - 3)) - 1) }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a class is below 300")]
fn narrow(class: u64) -> usize {
    class as usize
}

impl ExtentAllocator {
    /// An allocator of granules of so many words that has handed out nothing.
    pub(crate) fn new(words: usize) -> Self {
        Self {
            holes: Vec::new(),
            spare: Vec::new(),
            memory: Segments::new(words),
            ends: Vec::new(),
            top: 0,
            used: 0,
            bins: [NONE; BINS],
            bitmap: [0; WORDS],
            summary: 0,
        }
    }

    /// The start of a run of `len` granules, `len > 0`; `None` if the address space has no room for it. Its words are what
    /// was there before.
    pub(crate) fn alloc(&mut self, len: u32) -> Option<u32> {
        debug_assert!(len > 0, "an empty run has no place");
        let start = match self.find(len) {
            Some(id) => self.carve(id, len),
            None => self.grow(len)?,
        };
        self.used += len;
        Some(start)
    }

    /// Gives back `start..start + len`, all of it allocated; it may be a part of a run or span several.
    pub(crate) fn free(&mut self, start: u32, len: u32) {
        debug_assert!(self.is_allocated(start, len), "{start}..+{len} is not all allocated");
        self.used -= len;
        let left = start.checked_sub(1).and_then(|before| self.hole_at(before));
        match (left, self.hole_at(start + len)) {
            (None, None) => self.add(start, len),
            (Some(left), None) => self.resize(left, self.holes[left as usize].start, start + len),
            (None, Some(right)) => self.resize(right, start, self.end(right)),
            (Some(left), Some(right)) => {
                let end = self.end(right);
                self.drop_hole(right);
                self.resize(left, self.holes[left as usize].start, end);
            }
        }
    }

    /// The words of a run, or of a part of one.
    #[inline]
    pub(crate) fn words(&self, start: u32, len: u32) -> &[u32] {
        self.memory.of(start, len)
    }

    /// The same, to be written.
    #[inline]
    pub(crate) fn words_mut(&mut self, start: u32, len: u32) -> &mut [u32] {
        self.memory.of_mut(start, len)
    }

    /// Whether a run of `len` granules surely fits.
    pub(crate) fn has_room(&self, len: u32) -> bool {
        self.memory.has_room(len, LIMIT)
    }

    /// Every run lies below.
    #[cfg(test)]
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Granules allocated now.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of the heap this allocator holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let books = self.spare.capacity() * size_of::<u32>() + self.ends.capacity() * size_of::<u64>();
        self.holes.capacity() * size_of::<Hole>() + books + self.memory.memory_bytes()
    }

    /// A hole with at least `len` granules.
    #[inline]
    fn find(&self, len: u32) -> Option<u32> {
        let fitting = fitting_class_of(len);
        if let Some(class) = self.first_bin_from(fitting) {
            return Some(self.bins[class]);
        }
        let own = class_of(len.into());
        if own == fitting { None } else { self.bin(own).take(TRIES).find(|&id| self.holes[id as usize].len >= len) }
    }

    /// The first bin at or after `class` that holds something.
    #[inline]
    fn first_bin_from(&self, class: usize) -> Option<usize> {
        let word = class / 64;
        let here = self.bitmap.get(word)? & (u64::MAX << (class % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let later = self.summary & (u32::MAX << (word + 1));
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.bitmap[word].trailing_zeros() as usize)
    }

    /// The holes of one bin, first to last.
    fn bin(&self, class: usize) -> impl Iterator<Item = u32> + '_ {
        let listed = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(listed(self.bins[class]), move |&id| listed(self.holes[id as usize].next))
    }

    /// Takes the first `len` granules of a hole that has as many.
    fn carve(&mut self, id: u32, len: u32) -> u32 {
        let hole = self.holes[id as usize];
        if hole.len == len {
            self.drop_hole(id);
        } else {
            self.resize(id, hole.start + len, hole.start + hole.len);
        }
        hole.start
    }

    /// Makes a run that ends at a new top. A hole that ends at the old top becomes its beginning.
    fn grow(&mut self, len: u32) -> Option<u32> {
        let last = self.top.checked_sub(1).and_then(|before| self.hole_at(before));
        let start = last.map_or(self.top, |id| self.holes[id as usize].start);
        let end = self.memory.end();
        if end - start < len {
            let start = self.memory.add(len, LIMIT)?;
            self.leave(end);
            self.raise(start + len);
            return Some(start);
        }
        match last {
            Some(last) if self.top - start >= len => return Some(self.carve(last, len)),
            Some(last) => self.drop_hole(last),
            None => {}
        }
        self.raise(start + len);
        Some(start)
    }

    /// What is left of a segment, up to its end, becomes a hole.
    fn leave(&mut self, end: u32) {
        let (start, len) = (self.top, end - self.top);
        if len > 0 {
            self.raise(end);
            self.used += len;
            self.free(start, len);
        }
    }

    fn raise(&mut self, top: u32) {
        self.top = top;
        self.ends.resize(top.div_ceil(64) as usize, 0);
    }

    fn add(&mut self, start: u32, len: u32) {
        let hole = Hole { start, len, prev: NONE, next: NONE };
        let id = if let Some(id) = self.spare.pop() {
            self.holes[id as usize] = hole;
            id
        } else {
            self.holes.push(hole);
            last_index(&self.holes)
        };
        self.link(id);
        self.tag(id);
    }

    fn drop_hole(&mut self, id: u32) {
        self.untag(id);
        self.unlink(id);
        self.spare.push(id);
    }

    /// Moves the ends of a hole. Its bin changes only with its class.
    fn resize(&mut self, id: u32, start: u32, end: u32) {
        self.untag(id);
        let (old, new) = (self.holes[id as usize].len, end - start);
        if class_of(old.into()) == class_of(new.into()) {
            (self.holes[id as usize].start, self.holes[id as usize].len) = (start, new);
        } else {
            self.unlink(id);
            (self.holes[id as usize].start, self.holes[id as usize].len) = (start, new);
            self.link(id);
        }
        self.tag(id);
    }

    #[inline]
    fn tag(&mut self, id: u32) {
        let Hole { start, len, .. } = self.holes[id as usize];
        for at in [start, start + len - 1] {
            self.ends[at as usize / 64] |= 1 << (at % 64);
            self.memory.of_mut(at, 1)[0] = id;
        }
    }

    #[inline]
    fn untag(&mut self, id: u32) {
        let Hole { start, len, .. } = self.holes[id as usize];
        for at in [start, start + len - 1] {
            self.ends[at as usize / 64] &= !(1 << (at % 64));
        }
    }

    /// The hole that begins or ends with a granule.
    #[inline]
    fn hole_at(&self, at: u32) -> Option<u32> {
        self.is_end(at).then(|| self.memory.of(at, 1)[0])
    }

    #[inline]
    fn is_end(&self, at: u32) -> bool {
        self.ends.get(at as usize / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }

    #[inline]
    fn end(&self, id: u32) -> u32 {
        self.holes[id as usize].start + self.holes[id as usize].len
    }

    #[inline]
    fn link(&mut self, id: u32) {
        let class = class_of(self.holes[id as usize].len.into());
        let next = std::mem::replace(&mut self.bins[class], id);
        self.holes[id as usize].prev = NONE;
        self.holes[id as usize].next = next;
        if next != NONE {
            self.holes[next as usize].prev = id;
            return;
        }
        self.bitmap[class / 64] |= 1 << (class % 64);
        self.summary |= 1 << (class / 64);
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let Hole { len, prev, next, .. } = self.holes[id as usize];
        if next != NONE {
            self.holes[next as usize].prev = prev;
        }
        if prev != NONE {
            self.holes[prev as usize].next = next;
            return;
        }
        let class = class_of(len.into());
        self.bins[class] = next;
        if next == NONE {
            self.empty_bin(class);
        }
    }

    #[inline]
    fn empty_bin(&mut self, class: usize) {
        self.bitmap[class / 64] &= !(1 << (class % 64));
        if self.bitmap[class / 64] == 0 {
            self.summary &= !(1 << (class / 64));
        }
    }

    /// Whether a run lies below the top and no hole reaches into it; a scan, for assertions.
    fn is_allocated(&self, start: u32, len: u32) -> bool {
        let Some(end) = start.checked_add(len).filter(|&end| end <= self.top && len > 0) else {
            return false;
        };
        // Inside a hole no bit is set, so its boundary is looked for below, though not all the way down.
        let covering = (0..start).rev().take(1024).find_map(|at| self.hole_at(at));
        covering.is_none_or(|id| self.end(id) <= start) && !(start..end).any(|at| self.is_end(at))
    }
}

/// Checking, which walks everything.
impl ExtentAllocator {
    /// Every invariant: ends, holes, bins, bitmap and counts say the same.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_counts()?;
        let (holes, free) = self.check_ends()?;
        if holes + self.spare.len() != self.holes.len() {
            let (all, spare) = (self.holes.len(), self.spare.len());
            return Err(format!("extent: {all} hole entries, of them {holes} tagged and {spare} spare"));
        }
        let fences = self.memory.fences().count();
        if u64::from(self.used) + u64::from(free) + fences as u64 != u64::from(self.top) {
            let (used, top) = (self.used, self.top);
            return Err(format!("extent: used {used} + free {free} + {fences} fences is not top {top}"));
        }
        let mut listed = 0;
        for class in 0..BINS {
            listed += self.check_bin(class)?;
        }
        if listed == holes { Ok(()) } else { Err(format!("extent: {holes} holes are tagged, {listed} are in bins")) }
    }

    fn check_counts(&self) -> Result<(), String> {
        if self.top > self.memory.end() || self.ends.len() != self.top.div_ceil(64) as usize {
            let (words, end) = (self.ends.len(), self.memory.end());
            return Err(format!("extent: {words} words of ends and memory up to {end} for top {}", self.top));
        }
        for (word, &bits) in self.bitmap.iter().enumerate() {
            if (bits != 0) != (self.summary >> word & 1 == 1) {
                return Err(format!("extent: summary {:b} but word {word} is {bits:b}", self.summary));
            }
        }
        Ok(())
    }

    /// Walks the granules; returns the number of holes and of free granules.
    fn check_ends(&self) -> Result<(usize, u32), String> {
        let (mut at, mut holes, mut free, mut after_hole) = (0, 0, 0, false);
        while at < self.top {
            let Some(id) = self.hole_at(at) else {
                (at, after_hole) = (at + 1, false);
                continue;
            };
            let len = self.check_hole(at, id)?;
            if after_hole {
                return Err(format!("extent: two holes touch at {at}"));
            }
            (at, holes, free, after_hole) = (at + len, holes + 1, free + len, true);
        }
        Ok((holes, free))
    }

    /// A hole that begins at `at`, as its granule says; returns its length.
    fn check_hole(&self, at: u32, id: u32) -> Result<u32, String> {
        let Some(&Hole { start, len, .. }) = self.holes.get(id as usize) else {
            return Err(format!("extent: granule {at} names hole {id}, which has no entry"));
        };
        let Some(end) = at.checked_add(len).filter(|end| len > 0 && *end <= self.top) else {
            return Err(format!("extent: hole {id} at {at} has length {len} and top is {}", self.top));
        };
        let inside =
            (at + 1..end - 1).any(|at| self.is_end(at)) || self.memory.fences().any(|at| (start..end).contains(&at));
        if start != at || self.hole_at(end - 1) != Some(id) || inside {
            return Err(format!("extent: hole {id} is {start}..+{len}, but its ends at {at} do not say so"));
        }
        Ok(len)
    }

    /// One bin: order of its links, class of its holes and its bit; returns how many holes it has.
    fn check_bin(&self, class: usize) -> Result<usize, String> {
        let (mut prev, mut count) = (NONE, 0);
        for id in self.bin(class) {
            let hole = self.holes[id as usize];
            if hole.prev != prev || class_of(hole.len.into()) != class {
                return Err(format!("extent: bin {class} lists hole {id} of length {}, prev {}", hole.len, hole.prev));
            }
            (prev, count) = (id, count + 1);
        }
        let bit = self.bitmap[class / 64] >> (class % 64) & 1 == 1;
        if bit == (count > 0) { Ok(count) } else { Err(format!("extent: bin {class} has {count} holes, bit {bit}")) }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "holes do not touch, so there are fewer than granules")]
fn last_index(holes: &[Hole]) -> u32 {
    holes.len() as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;

    /// Owners of granules, kept one by one.
    struct Model {
        owned: Vec<bool>,
        runs: Vec<(u32, u32)>,
    }

    impl Model {
        fn set(&mut self, start: u32, len: u32, owned: bool) {
            let end = (start + len) as usize;
            self.owned.resize(self.owned.len().max(end), false);
            for granule in &mut self.owned[start as usize..end] {
                assert_ne!(std::mem::replace(granule, owned), owned, "in {start}..+{len}");
            }
        }

        fn longest_gap(&self) -> usize {
            self.owned.split(|&owned| owned).map(<[bool]>::len).max().unwrap_or(0)
        }

        /// Takes a whole run out, or the part of it that lies on one side of a cut.
        fn take_some(&mut self, random: &mut SplitMix64) -> Option<(u32, u32)> {
            if self.runs.is_empty() {
                return None;
            }
            let at = random.below(u32::try_from(self.runs.len()).unwrap()) as usize;
            let (start, len) = self.runs.swap_remove(at);
            let cut = if random.below(2) == 0 { 0 } else { random.below(len) };
            if cut == 0 {
                return Some((start, len));
            }
            let halves = [(start, cut), (start + cut, len - cut)];
            let freed = random.below(2) as usize;
            self.runs.push(halves[1 - freed]);
            Some(halves[freed])
        }
    }

    fn run_random_calls(seed: u64, words: usize, longest: u32, target: u32, calls: u32) -> ExtentAllocator {
        let (mut extents, mut random) = (ExtentAllocator::new(words), SplitMix64(seed));
        let (mut model, mut fences) = (Model { owned: Vec::new(), runs: Vec::new() }, 0);
        for _ in 0..calls {
            if extents.used() < random.below(2 * target) {
                let bound = 1 + random.below(longest);
                let len = 1 + random.below(bound);
                let (gap, top) = (model.longest_gap(), extents.top());
                let start = extents.alloc(len).unwrap();
                extents.words_mut(start, len).fill(u32::MAX);
                for fence in extents.memory.fences().skip(fences) {
                    model.set(fence, 1, true);
                    fences += 1;
                }
                assert!(
                    extents.top() == top || len >= EXACT || gap < len as usize,
                    "grew with a gap of {gap} for {len}"
                );
                model.set(start, len, true);
                model.runs.push((start, len));
            } else if let Some((start, len)) = model.take_some(&mut random) {
                extents.free(start, len);
                model.set(start, len, false);
            }
            extents.check().unwrap();
            assert_eq!(extents.top() as usize, model.owned.len());
            assert_eq!(extents.used() as usize + fences, model.owned.iter().filter(|&&owned| owned).count());
        }
        extents
    }

    #[test]
    fn behaves_as_an_array_of_owners() {
        for (words, segments) in [(1, 1), (1024, 3)] {
            run_random_calls(1, words, 3, 20, 3_000);
            run_random_calls(2, words, 40, 200, 3_000);
            let extents = run_random_calls(3, words, 300, 2_000, 2_000);
            assert!(extents.memory.fences().count() + 1 >= segments);
        }
        let extents = run_random_calls(4, 4, 1_500, 6_000, 1_000);
        assert!(extents.top() < 3 * 6_000, "top {} for about 6000 used", extents.top());
    }

    #[test]
    fn classes_are_ordered_and_the_fitting_class_fits() {
        let mut random = SplitMix64(5);
        let sizes = (1..5_000).chain((0..5_000).map(|_| 1 + (random.below(LIMIT) >> random.below(31))));
        for len in sizes.chain([LIMIT, u32::MAX]) {
            let own = class_of(len.into());
            assert!(own < BINS && class_of(u64::from(len) - 1) <= own);
            let fitting = fitting_class_of(len);
            assert!(fitting == own || fitting == own + 1, "{len}: {own} {fitting}");
            assert!(
                fitting == own + 1 || class_of(u64::from(len) - 1) < own || len == 1,
                "{len} is not the least of {own}"
            );
        }
    }

    #[test]
    fn the_topmost_hole_is_the_beginning_of_what_grows() {
        let mut extents = ExtentAllocator::new(1);
        assert_eq!((extents.alloc(10), extents.alloc(20)), (Some(0), Some(10)));
        extents.free(15, 15);
        assert_eq!((extents.top(), extents.used()), (30, 15));
        assert_eq!(extents.alloc(40), Some(15));
        assert_eq!((extents.top(), extents.used()), (55, 55));
        extents.check().unwrap();
        extents.free(0, 55);
        assert_eq!((extents.alloc(55), extents.top()), (Some(0), 55));
    }

    #[test]
    fn the_address_space_ends() {
        let mut extents = ExtentAllocator::new(1);
        assert_eq!(extents.alloc(u32::MAX), None);
        assert_eq!(extents.alloc(10), Some(0));
        assert_eq!(extents.alloc(LIMIT - 9), None);
        extents.free(4, 6);
        assert_eq!(extents.alloc(LIMIT - 3), None);
        assert_eq!((extents.top(), extents.used()), (10, 4));
        extents.check().unwrap();
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_granule_inside_a_hole_is_not_allocated() {
        let mut extents = ExtentAllocator::new(1);
        extents.alloc(10);
        extents.free(2, 6);
        let allocated: Vec<bool> = (0..=10).map(|at| extents.is_allocated(at, 1)).collect();
        assert_eq!(allocated, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|at| at < 2 || at == 8 || at == 9));
    }

    #[test]
    fn check_reports_what_does_not_agree() {
        let mut extents = ExtentAllocator::new(1);
        extents.alloc(10);
        extents.free(2, 3);
        extents.used += 1;
        assert_eq!(extents.check().unwrap_err(), "extent: used 8 + free 3 + 0 fences is not top 10");
        extents.used -= 1;
        extents.ends[0] ^= 1 << 4;
        assert_eq!(extents.check().unwrap_err(), "extent: hole 0 is 2..+3, but its ends at 2 do not say so");
        extents.ends[0] ^= 1 << 4;
        extents.bitmap[0] = 0;
        assert!(extents.check().unwrap_err().starts_with("extent: summary 1 but word 0"));
    }
}
