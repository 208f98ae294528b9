//! Receipts for locks and pins: each is given back exactly once.

use crate::error::Error;
use crate::node::{Hold, NodeId};

/// Bit that tells a receipt from a node handle.
const RECEIPT: u64 = 1 << 62;
/// Bits that tell a pin's and a host lock's receipt from a lock's.
const PIN: u64 = 1 << 61;
const HOST: u64 = 1 << 60;
const GENERATION_MASK: u32 = (1 << 28) - 1;

/// Proof of one `lock`, to be given back to `unlock` once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockReceipt(u64);

/// Proof of one `pin`, to be given back to `unpin` once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinReceipt(u64);

/// Proof of one `host_lock`, to be given back once: to `unlock_host`, or to the load-back that it was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLockReceipt(u64);

macro_rules! receipt_bits {
    ($receipt:ident) => {
        impl $receipt {
            /// The receipt with these bits.
            #[must_use]
            pub fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// The receipt's bits, below 2^63.
            #[must_use]
            pub fn to_bits(self) -> u64 {
                self.0
            }
        }
    };
}
receipt_bits!(LockReceipt);
receipt_bits!(PinReceipt);
receipt_bits!(HostLockReceipt);

#[derive(Debug, Clone, Copy)]
struct Entry {
    node: NodeId,
    generation: u32,
    outstanding: Option<Hold>,
}

/// All receipts that are out.
#[derive(Debug, Default)]
pub(crate) struct HoldTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

fn bits(hold: Hold, generation: u32, index: u32) -> u64 {
    let kind = match hold {
        Hold::Lock => 0,
        Hold::Pin => PIN,
        Hold::Host => HOST,
    };
    RECEIPT | kind | u64::from(generation) << 32 | u64::from(index)
}

fn name(hold: Hold) -> &'static str {
    match hold {
        Hold::Lock => "lock",
        Hold::Pin => "pin",
        Hold::Host => "host lock",
    }
}

impl HoldTable {
    /// The node that a receipt holds, which stays out.
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub(crate) fn look(&self, receipt: u64, hold: Hold) -> Result<NodeId, Error> {
        match self.entries.get(receipt as u32 as usize) {
            Some(entry)
                if entry.outstanding == Some(hold) && receipt == bits(hold, entry.generation, receipt as u32) =>
            {
                Ok(entry.node)
            }
            _ => Err(Error::Receipt { receipt, kind: name(hold) }),
        }
    }

    /// A new receipt's bits.
    #[inline]
    pub(crate) fn give(&mut self, node: NodeId, hold: Hold) -> Result<u64, Error> {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            (entry.node, entry.outstanding) = (node, Some(hold));
            return Ok(bits(hold, entry.generation, index));
        }
        let limit = u64::from(u32::MAX);
        let full = |_| Error::Capacity { what: "outstanding receipts", limit };
        let index = u32::try_from(self.entries.len()).map_err(full)?;
        self.entries.push(Entry { node, generation: 1, outstanding: Some(hold) });
        Ok(bits(hold, 1, index))
    }

    /// Takes a receipt back and gives the node that it holds.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub(crate) fn take(&mut self, receipt: u64, hold: Hold) -> Result<NodeId, Error> {
        let node = self.look(receipt, hold)?;
        self.retire(receipt as u32);
        Ok(node)
    }

    /// Ends every receipt.
    pub(crate) fn clear(&mut self) {
        for index in 0..self.entries.len() {
            if self.entries[index].outstanding.is_some() {
                self.retire(u32::try_from(index).expect("an index was given out as 32 bits"));
            }
        }
    }

    /// Ends a receipt. An entry whose generations are used up is not used again, lest an old receipt comes to life.
    fn retire(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.outstanding = None;
        if entry.generation < GENERATION_MASK {
            entry.generation += 1;
            self.free.push(index);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.free.capacity() * size_of::<u32>()
    }

    /// The nodes of all receipts that are out.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (NodeId, Hold)> + '_ {
        self.entries.iter().filter_map(|entry| entry.outstanding.map(|hold| (entry.node, hold)))
    }
}
