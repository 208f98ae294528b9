//! What a confused caller may do, each with the refusal that is right. A refused call changes nothing.

use isoradix_core::{
    Error, ErrorKind, Ints, LockReceipt, Namespace, NodeHandle, PinReceipt, PrefixCache, Resume, Stamp,
};

use super::operation::namespace;
use super::twins::Twins;

/// Units at the end of a node that a resume point is recognised by, if a page is not more.
const RESUME_WINDOW: usize = 64;

/// Everything that a refused call must leave as it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evidence(u64, u64, Stamp, usize, usize);

#[expect(clippy::cast_possible_truncation, reason = "noise, and small tests")]
impl Twins {
    /// Everything that a confused caller may hand in.
    pub(super) fn misuse(&mut self, kind: u8, noise: u64, key: &[u32]) {
        let space = namespace(noise as u8);
        let units = self.naive.units(key).len();
        let wide = |bad: i64| -> Vec<i64> {
            let mut tokens: Vec<i64> = key.iter().map(|token| i64::from(*token)).collect();
            tokens.insert(noise as usize % (key.len() + 1), bad);
            tokens
        };
        match kind % 10 {
            0 => {
                let tokens = wide(if noise & 1 == 0 { -1 - (noise >> 8).cast_signed() } else { 1 << 32 });
                self.refused(ErrorKind::InvalidInput, |cache| {
                    cache.match_prefix(Ints::I64(&tokens), &space, None).err()
                });
            }
            1 => {
                let (tokens, slots) = (wide(i64::MIN), vec![0; key.len() + 1]);
                self.refused(ErrorKind::InvalidInput, |cache| {
                    cache.insert(Ints::I64(&tokens), Ints::I64(&slots), &space, 0, None).err()
                });
            }
            2 => {
                let slots = if noise & 1 == 0 && units > 0 { vec![0; units - 1] } else { vec![0; key.len() + 1] };
                self.refused(ErrorKind::InvalidInput, |cache| {
                    cache.insert(Ints::U32(key), Ints::I64(&slots), &space, 0, None).err()
                });
            }
            3 => self.insert_with_a_bad_slot(key, &space, noise),
            4 => {
                let handle = self.some_dead_handle(noise);
                self.refused(ErrorKind::StaleHandle, |cache| cache.touch(handle).err());
                self.refused(ErrorKind::StaleHandle, |cache| cache.lock(handle).err());
                self.refused(ErrorKind::StaleHandle, |cache| cache.info(handle).err());
                let point = Some(Resume { node: handle, length: noise % 9 });
                self.refused(ErrorKind::StaleHandle, |cache| cache.match_prefix(Ints::U32(key), &space, point).err());
            }
            5 => {
                let receipt = self.some_dead_receipt(noise);
                self.refused(ErrorKind::Receipt, |cache| cache.unlock(LockReceipt::from_bits(receipt)).err());
                self.refused(ErrorKind::Receipt, |cache| cache.unpin(PinReceipt::from_bits(receipt)).err());
            }
            6 => self.swapped_receipts(),
            7 => {
                let step = self.cache.clock().step.saturating_sub(noise % 3);
                self.refused(ErrorKind::InvalidInput, |cache| cache.advance_step(Some(step)).err());
            }
            8 => self.resume_elsewhere(noise, key, &space),
            _ => {
                let free = self.pool.first_slot().cast_signed() + (noise % self.pool.total()).cast_signed();
                let slots = [free, free];
                assert!(self.pool.free(Ints::I64(&slots)).is_err(), "no page, or freed twice");
            }
        }
    }

    fn insert_with_a_bad_slot(&mut self, key: &[u32], space: &Namespace, noise: u64) {
        let units = self.naive.units(key);
        let cached = self.naive.cached(space, &units);
        if cached == units.len() {
            return;
        }
        let bad = cached + noise as usize % (units.len() - cached);
        let from = if noise & 1 == 0 { -1 } else { 1 << 31 };
        let mut slots: Vec<i64> = vec![7; units.len()];
        if noise & 2 == 0 {
            slots[bad] = from;
        } else {
            // Consecutive all the way, so that only the page's first or last slot gives it away.
            slots.iter_mut().zip(from - bad.cast_signed() as i64..).for_each(|(slot, value)| *slot = value);
        }
        self.refused(ErrorKind::InvalidInput, |cache| {
            cache.insert(Ints::U32(key), Ints::I64(&slots), space, 0, None).err()
        });
    }

    fn swapped_receipts(&mut self) {
        if let Some((receipt, _)) = self.naive.locks.first().copied() {
            self.refused(ErrorKind::Receipt, |cache| cache.unpin(PinReceipt::from_bits(receipt)).err());
        }
        if let Some((receipt, _)) = self.naive.pins.first().copied() {
            self.refused(ErrorKind::Receipt, |cache| cache.unlock(LockReceipt::from_bits(receipt)).err());
        }
    }

    /// A resume point whose node is no prefix of the key, or not of that length.
    fn resume_elsewhere(&mut self, noise: u64, key: &[u32], space: &Namespace) {
        let sequence = self.pick(noise as u16);
        let Some(node) = self.naive.node(sequence).cloned() else { return };
        let handle = self.handles[&sequence];
        let (units, depth) = (self.naive.units(key), node.path.len());
        let length = depth as u64 + if noise & 1 << 20 == 0 { 0 } else { self.naive.page as u64 };
        // A resume point is recognised by a window at its node's end. What agrees there is either a prefix or a mix-up that
        // only a whole comparison would find, which resuming is there to save.
        let window = depth - node.length().min(self.naive.page.max(RESUME_WINDOW))..depth;
        let looks_right = node.namespace == *space && units.get(window.clone()) == Some(&node.path[window]);
        if looks_right && length == depth as u64 {
            return;
        }
        let point = Some(Resume { node: handle, length });
        self.refused(ErrorKind::InvalidInput, |cache| cache.match_prefix(Ints::U32(key), space, point).err());
        let slots = vec![0; key.len()];
        self.refused(ErrorKind::InvalidInput, |cache| {
            cache.insert(Ints::U32(key), Ints::I64(&slots), space, 0, point).err()
        });
    }

    fn some_dead_handle(&self, noise: u64) -> NodeHandle {
        let forged = NodeHandle::from_bits(noise | 1 << 60);
        let dead = &self.dead_handles;
        if dead.is_empty() || noise.is_multiple_of(4) { forged } else { dead[noise as usize % dead.len()] }
    }

    fn some_dead_receipt(&self, noise: u64) -> u64 {
        let dead = &self.dead_receipts;
        if dead.is_empty() || noise.is_multiple_of(4) { noise | 1 << 63 } else { dead[noise as usize % dead.len()] }
    }

    /// The call is refused, with a hint, and has changed nothing.
    pub(super) fn refused(&mut self, kind: ErrorKind, call: impl FnOnce(&mut PrefixCache) -> Option<Error>) {
        let before = self.evidence();
        let error = call(&mut self.cache).expect("a refusal");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
        assert_eq!(self.evidence(), before, "{error}");
    }

    pub(super) fn evidence(&self) -> Evidence {
        let cache = &self.cache;
        let sizes = cache.sizes();
        let held = (sizes.protected + sizes.pinned) as usize;
        Evidence(cache.decision_digest(), cache.tree_digest(), cache.clock(), sizes.total as usize, held)
    }
}
