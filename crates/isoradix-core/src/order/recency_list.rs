//! The recency list: which node was touched longest ago.
//!
//! An intrusive doubly linked list over node ids. The links live in one array indexed by id, so moving
//! a touched node to the back, or taking an evicted one out of the middle, is O(1) and allocates nothing;
//! the array grows only when an id is seen that is higher than any before.
//!
//! Order: front is the node touched longest ago, back the one touched last. It depends on the calls alone.
//!
//! Id 0 is the root, which is never evicted and so never listed: its entry is the sentinel that closes the
//! list into a ring. Its `next` is the front and its `prev` the back, so no operation has an end case.

const SENTINEL: u32 = 0;

/// In both links of an id that is not listed. No id can have this value.
const UNLISTED: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    const RING_OF_ONE: Self = Self { prev: SENTINEL, next: SENTINEL };
    const UNLISTED: Self = Self { prev: UNLISTED, next: UNLISTED };
}

/// An O(1) recency list of node ids; see the module's notes for its order.
pub(crate) struct RecencyList {
    links: Vec<Link>,
}

impl RecencyList {
    /// An empty list.
    pub(crate) fn new() -> Self {
        Self { links: vec![Link::RING_OF_ONE] }
    }

    /// Appends an id that is not listed.
    #[inline]
    pub(crate) fn push_back(&mut self, id: u32) {
        debug_assert!(id != SENTINEL && id != UNLISTED, "id {id} cannot be listed");
        debug_assert!(!self.contains(id), "id {id} is listed already");
        if id as usize >= self.links.len() {
            self.grow(id);
        }
        self.attach_back(id);
    }

    /// Makes `id` the last one; an id that is not listed is appended.
    #[inline]
    pub(crate) fn move_to_back(&mut self, id: u32) {
        debug_assert!(id != SENTINEL, "the sentinel is not listed");
        match self.links.get(id as usize) {
            Some(link) if link.next == SENTINEL => {}
            Some(link) if link.next != UNLISTED => {
                self.detach(*link);
                self.attach_back(id);
            }
            _ => self.push_back(id),
        }
    }

    /// Takes `id` out and says whether it was listed.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        debug_assert!(id != SENTINEL, "the sentinel is not listed");
        if !self.contains(id) {
            return false;
        }
        self.detach(self.links[id as usize]);
        self.links[id as usize] = Link::UNLISTED;
        true
    }

    /// The id that was touched longest ago.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        self.next_of(SENTINEL)
    }

    /// The id after `id`, or `None` if it is the last or not listed.
    #[inline]
    pub(crate) fn next_of(&self, id: u32) -> Option<u32> {
        let next = self.links.get(id as usize)?.next;
        (next != SENTINEL && next != UNLISTED).then_some(next)
    }

    /// Whether `id` is listed.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        id != SENTINEL && self.links.get(id as usize).is_some_and(|link| link.next != UNLISTED)
    }

    /// The listed ids, front to back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.front(), |&id| self.next_of(id))
    }

    /// Takes every id out; the array keeps its room.
    pub(crate) fn clear(&mut self) {
        self.links.truncate(1);
        self.links[SENTINEL as usize] = Link::RING_OF_ONE;
    }

    /// Bytes of the heap this list holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    /// Walks the whole ring: both directions agree, and it holds exactly the ids marked as listed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let listed = self.links.iter().skip(1).filter(|link| link.next != UNLISTED).count();
        let (mut at, mut seen) = (SENTINEL, 0);
        loop {
            let next = self.links[at as usize].next;
            match self.links.get(next as usize) {
                Some(link) if link.prev == at => {}
                Some(link) => {
                    return Err(format!("recency list: {at} is followed by {next}, whose prev is {}", link.prev));
                }
                None => {
                    return Err(format!("recency list: {at} is followed by {next}, which has no link"));
                }
            }
            if next == SENTINEL {
                break;
            }
            at = next;
            seen += 1;
        }
        if seen == listed {
            Ok(())
        } else {
            Err(format!("recency list: {listed} ids are marked as listed, {seen} are in the ring"))
        }
    }

    #[inline]
    fn attach_back(&mut self, id: u32) {
        let back = self.links[SENTINEL as usize].prev;
        self.links[id as usize] = Link { prev: back, next: SENTINEL };
        self.links[back as usize].next = id;
        self.links[SENTINEL as usize].prev = id;
    }

    #[inline]
    fn detach(&mut self, link: Link) {
        self.links[link.prev as usize].next = link.next;
        self.links[link.next as usize].prev = link.prev;
    }

    #[cold]
    fn grow(&mut self, id: u32) {
        let len = (id as usize + 1).max(self.links.len() * 2);
        self.links.resize(len, Link::UNLISTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;

    fn step(list: &mut RecencyList, model: &mut Vec<u32>, random: &mut SplitMix64, ids: u32) {
        let id = 1 + random.below(ids);
        let at = model.iter().position(|&other| other == id);
        assert_eq!(list.contains(id), at.is_some());
        assert_eq!(list.next_of(id), at.and_then(|at| model.get(at + 1).copied()));
        if random.below(3) == 0 {
            assert_eq!(list.remove(id), at.is_some());
            model.retain(|&other| other != id);
        } else if at.is_none() && random.below(2) == 0 {
            list.push_back(id);
            model.push(id);
        } else {
            list.move_to_back(id);
            model.retain(|&other| other != id);
            model.push(id);
        }
    }

    #[test]
    fn behaves_as_a_vector_of_ids() {
        for (seed, ids) in [(1, 2), (2, 5), (3, 40), (4, 300)] {
            let (mut list, mut model, mut random) = (RecencyList::new(), Vec::new(), SplitMix64(seed));
            for round in 0..3_000 {
                step(&mut list, &mut model, &mut random, ids);
                list.check().unwrap();
                assert_eq!(list.front(), model.first().copied());
                if round % 16 == 0 {
                    assert_eq!(list.iter().collect::<Vec<_>>(), model);
                }
                if random.below(500) == 0 {
                    list.clear();
                    model.clear();
                }
            }
        }
    }

    #[test]
    fn an_empty_list_answers() {
        let mut list = RecencyList::new();
        assert_eq!((list.front(), list.next_of(7), list.remove(7)), (None, None, false));
        assert!(!list.contains(0) && !list.contains(u32::MAX));
        list.check().unwrap();
    }

    #[test]
    fn check_reports_a_broken_ring() {
        let mut list = RecencyList::new();
        (1..=3).for_each(|id| list.push_back(id));
        list.links[2].prev = 3;
        assert_eq!(list.check().unwrap_err(), "recency list: 1 is followed by 2, whose prev is 3");
        list.links[2].prev = 1;
        list.links.push(Link::RING_OF_ONE);
        assert!(list.check().unwrap_err().starts_with("recency list: 4 ids are marked as listed"));
    }
}
