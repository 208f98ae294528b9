//! Node handles and receipts between Python and the core, told apart from those of other caches.
//!
//! Inside, every cache numbers its nodes and receipts from the same start, so an int of one cache would often name
//! something living in another. So each cache has a mark, and an int that leaves it is the core's with the mark XORed
//! in; one that comes in loses it again. With another cache's mark it has a generation that this cache never gave out.
//! Marks count the caches of the process, written backwards from the top of the generation, which itself grows from
//! the bottom: the two meet after many millions of calls only.

use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use isoradix_core::{Error, HostLockReceipt, LockReceipt, NodeHandle, PinReceipt};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors::{self, Class};
use crate::scalars::{self, Scalar};

const NODE: Scalar =
    scalars::any("node", "pass the node of a MatchResult or an InsertResult, a NodeInfo's handle, or cache.root");
const LOCK_RECEIPT: Scalar = scalars::any("receipt", "pass what lock() returned");
const PIN_RECEIPT: Scalar = scalars::any("receipt", "pass what pin() returned");
const HOST_LOCK_RECEIPT: Scalar = scalars::any("receipt", "pass what host_lock() returned");

/// Bits 61 and up tell what an int is; the core sets them. Bit 60 tells a host lock from a lock.
const KIND_BIT: u32 = 61;
const A_NODE: u64 = 0b000;
const A_LOCK: u64 = 0b010;
const A_PIN: u64 = 0b011;
/// A mark takes bits 59 and down of an int: all but the top one of the generation, for a Python int of 60 bits has two
/// digits.
const TOP_BIT: u32 = 60;
/// Bits of a mark, at most: those of the generation.
const MARK_BITS: u32 = 28;

static CACHES: AtomicU32 = AtomicU32::new(0);

/// What a cache's handles and receipts have in common. The first cache of a process has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The mark of the next cache.
    pub(crate) fn next() -> Self {
        let count = CACHES.fetch_add(1, Ordering::Relaxed) & ((1 << MARK_BITS) - 1);
        Self(u64::from(count.reverse_bits()) << (TOP_BIT - u32::BITS))
    }

    /// Turns a node handle of the core into one of Python, and back. The root is the same in all caches: it has the
    /// lower half to itself.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the lower half
    fn on_handle(self, bits: u64) -> u64 {
        if bits as u32 == NodeHandle::ROOT.to_bits() as u32 { bits } else { bits ^ self.0 }
    }

    /// The handle as Python sees it.
    #[inline]
    pub(crate) fn handle(self, node: NodeHandle) -> Handle {
        Handle { node, mark: self }
    }

    /// A lock's receipt as Python sees it.
    #[inline]
    pub(crate) fn lock_receipt(self, receipt: LockReceipt) -> u64 {
        receipt.to_bits() ^ self.0
    }

    /// A pin's receipt as Python sees it.
    #[inline]
    pub(crate) fn pin_receipt(self, receipt: PinReceipt) -> u64 {
        receipt.to_bits() ^ self.0
    }

    /// A host lock's receipt as Python sees it.
    #[inline]
    pub(crate) fn host_lock_receipt(self, receipt: HostLockReceipt) -> u64 {
        receipt.to_bits() ^ self.0
    }

    /// Reads a node handle.
    #[inline]
    pub(crate) fn read_node(self, given: &Bound<'_, PyAny>) -> PyResult<NodeHandle> {
        NODE.read(given).map(|bits| NodeHandle::from_bits(self.on_handle(bits)))
    }

    /// Reads a lock's receipt.
    #[inline]
    pub(crate) fn read_lock_receipt(self, given: &Bound<'_, PyAny>) -> PyResult<LockReceipt> {
        LOCK_RECEIPT.read(given).map(|bits| LockReceipt::from_bits(bits ^ self.0))
    }

    /// Reads a pin's receipt.
    #[inline]
    pub(crate) fn read_pin_receipt(self, given: &Bound<'_, PyAny>) -> PyResult<PinReceipt> {
        PIN_RECEIPT.read(given).map(|bits| PinReceipt::from_bits(bits ^ self.0))
    }

    /// Reads a host lock's receipt.
    #[inline]
    pub(crate) fn read_host_lock_receipt(self, given: &Bound<'_, PyAny>) -> PyResult<HostLockReceipt> {
        HOST_LOCK_RECEIPT.read(given).map(|bits| HostLockReceipt::from_bits(bits ^ self.0))
    }

    /// The handle that another call gave out, of this cache or another one.
    #[inline]
    pub(crate) fn take(self, handle: Handle) -> NodeHandle {
        NodeHandle::from_bits(self.on_handle(handle.to_bits()))
    }

    /// The exception for a refusal by a `cache`, of that class: handles and receipts in it are shown as the caller gave them.
    #[cold]
    pub(crate) fn error(self, py: Python<'_>, cache: &str, error: &Error) -> PyErr {
        let (shown, class, what, foreign) = match error {
            Error::StaleHandle { handle } => {
                let shown = Error::StaleHandle { handle: self.on_handle(*handle) };
                (shown, Class::StaleHandle, "node", is_foreign(*handle, A_NODE))
            }
            Error::Receipt { receipt, kind } => {
                let shown = Error::Receipt { receipt: receipt ^ self.0, kind };
                let of_kind = if *kind == "pin" { A_PIN } else { A_LOCK };
                (shown, Class::Receipt, "receipt", is_foreign(*receipt, of_kind))
            }
            other => return errors::from_core(py, other),
        };
        if !foreign {
            return errors::from_core(py, &shown);
        }
        let text = shown.to_string();
        let fault = text.split('\n').next().unwrap_or(&text);
        errors::new(
            py,
            class,
            format!(
                "{fault} of this cache\n\
                 hint: it looks like a {what} of another {cache}; give it to the cache that it came from"
            ),
        )
    }
}

/// Whether a core's handle or receipt that names nothing has a mark left, of another cache of this process.
fn is_foreign(bits: u64, kind: u64) -> bool {
    let marked = u32::BITS - CACHES.load(Ordering::Relaxed).saturating_sub(1).leading_zeros();
    let below = bits & ((1 << TOP_BIT) - 1);
    bits >> KIND_BIT == kind && below >> (TOP_BIT - marked.min(MARK_BITS)) != 0
}

/// A node handle on its way to Python.
///
/// Equal handles name corresponding nodes: the mark does not count, so that results of two caches with equal histories
/// are equal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle {
    node: NodeHandle,
    mark: Mark,
}

impl Handle {
    /// The int that Python sees.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.mark.on_handle(self.node.to_bits())
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl Eq for Handle {}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.node.to_bits().hash(state);
    }
}

impl<'py> IntoPyObject<'py> for Handle {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = Infallible;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        self.to_bits().into_pyobject(py)
    }
}
