//! Device memory: the pool that hands out slots, and what is written in each.

use super::at;
use crate::request::Tag;
use crate::rng::Rng;
use crate::violation::{Wrong, ensure};
use isoradix_core::{Ints, SlotPool};

/// The first slot of a pool, as some kernels keep a slot for padding.
const FIRST_SLOT: u64 = 8;

/// Slots of one rank.
#[derive(Debug)]
pub(crate) struct Device {
    pool: SlotPool,
    page: usize,
    /// One a slot; 0 for nothing.
    tags: Vec<Tag>,
}

impl Device {
    /// All free. The order in which slots are handed out is the rank's own, so that slot numbers differ between ranks.
    pub(crate) fn new(pages: u32, page: u32, rng: &mut Rng) -> Result<Self, Wrong> {
        let slots = u64::from(pages) * u64::from(page);
        let mut pool =
            SlotPool::new(slots, page, FIRST_SLOT).map_err(|error| Wrong::new("setup", error.to_string()))?;
        let mut all = Vec::new();
        pool.alloc(slots, &mut all).map_err(|error| Wrong::new("setup", error.to_string()))?;
        let mut order: Vec<&[i64]> = all.chunks(page as usize).collect();
        rng.shuffle(&mut order);
        let shuffled: Vec<i64> = order.concat();
        pool.free(Ints::I64(&shuffled)).map_err(|error| Wrong::new("setup", error.to_string()))?;
        Ok(Self { pool, page: page as usize, tags: vec![0; at(slots)] })
    }

    /// Tokens that can be allocated. Logical: the same calls are made on all ranks.
    pub(crate) fn available(&self) -> u64 {
        self.pool.available()
    }

    pub(crate) fn total(&self) -> u64 {
        self.pool.total()
    }

    /// Slots for so many tokens, in whole pages; none if there are not as many.
    pub(crate) fn alloc(&mut self, tokens: usize) -> Option<Vec<i64>> {
        let mut out = Vec::new();
        let whole = tokens.next_multiple_of(self.page) as u64;
        self.pool.alloc(whole, &mut out).ok()?;
        Some(out)
    }

    /// Gives slots back; what was in them is gone.
    pub(crate) fn free(&mut self, slots: &[i64]) -> Result<(), Wrong> {
        self.pool.free(Ints::I64(slots)).map_err(|error| Wrong::new("slots", error.to_string()))?;
        for slot in slots {
            self.tags[Self::place(*slot)] = 0;
        }
        Ok(())
    }

    /// What is in a slot, 0 for nothing.
    pub(crate) fn tag(&self, slot: i64) -> Tag {
        self.tags.get(Self::place(slot)).copied().unwrap_or_default()
    }

    /// What a copy reads from a slot.
    pub(crate) fn read(&self, slot: i64) -> Result<Tag, Wrong> {
        let tag = self.tag(slot);
        ensure(tag != 0, "memory", || {
            format!("slot {slot} is read before it was written, or after it was given away")
        })?;
        Ok(tag)
    }

    pub(crate) fn write(&mut self, slot: i64, tag: Tag) -> Result<(), Wrong> {
        let free = self.pool.is_free(slot.cast_unsigned());
        let known = Self::place(slot) < self.tags.len();
        ensure(known && !free, "memory", || format!("slot {slot} is written after it was given away"))?;
        self.tags[Self::place(slot)] = tag;
        Ok(())
    }

    /// A forward pass reads this.
    pub(crate) fn expect(&self, slot: i64, tag: Tag, what: impl FnOnce() -> String) -> Result<(), Wrong> {
        let found = self.tag(slot);
        ensure(found == tag, "memory", || match found {
            0 => format!("{}: slot {slot} is read before it was written, or after it was given away", what()),
            _ => format!("{}: slot {slot} holds the KV of something else", what()),
        })
    }

    fn place(slot: i64) -> usize {
        at(slot.cast_unsigned().wrapping_sub(FIRST_SLOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_away_cannot_be_read_or_written() {
        let mut device = Device::new(4, 2, &mut Rng::new(1, 1)).unwrap();
        let slots = device.alloc(3).unwrap();
        assert_eq!((slots.len(), device.available()), (4, 4));
        assert!(device.read(slots[0]).is_err());
        device.write(slots[0], 9).unwrap();
        assert_eq!(device.read(slots[0]), Ok(9));
        assert!(device.expect(slots[0], 8, || "x".to_owned()).is_err());
        device.free(&slots).unwrap();
        assert!(device.read(slots[0]).is_err() && device.write(slots[0], 9).is_err());
        assert!(device.free(&slots).is_err() && device.alloc(9).is_none());
        assert!(device.write(0, 1).is_err(), "a slot that is not there");
    }
}
