//! What the verbs and views of a tiered cache give.

use isoradix_core::host::Ledger;
use isoradix_core::operation::Operation;
use isoradix_core::{Evicted, Resume, TieredMatch};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors::{self, Class, describe};
use crate::handles::{Handle, Mark};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TieredMatchResult>()?;
    module.add_class::<EvictResult>()?;
    module.add_class::<PrefetchTicket>()?;
    module.add_class::<TierSizes>()?;
    module.add_class::<HostLedger>()?;
    module.add_class::<OperationInfo>()
}

/// What `TieredCache.match_prefix` found.
///
/// Pass it as `resume=` to a later `match_prefix` or `insert` of a longer key: comparing starts at `node`.
#[pyclass(frozen, eq, hash, module = "isoradix")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct TieredMatchResult {
    /// Length of the longest prefix on the device, in tokens (pairs, in bigram mode); a multiple of the page size.
    #[pyo3(get)]
    hit_tokens: u64,
    /// Handle of the node where that prefix ends; `cache.root` if nothing matched.
    #[pyo3(get)]
    node: Handle,
    /// Tokens that follow on host alone: what `host_lock(host_node)` and `load_back` bring to the device.
    #[pyo3(get)]
    host_tokens: u64,
    /// Handle of the node where these end; `node` if there are none.
    #[pyo3(get)]
    host_node: Handle,
}

#[pymethods]
impl TieredMatchResult {
    /// Depth of `node`, in tokens: equal to `hit_tokens`. With `node` it makes a resume point.
    #[getter]
    fn length(&self) -> u64 {
        self.hit_tokens
    }

    fn __repr__(&self) -> String {
        let (node, host_node) = (self.node.to_bits(), self.host_node.to_bits());
        let Self { hit_tokens, host_tokens, .. } = self;
        format!(
            "TieredMatchResult(hit_tokens={hit_tokens}, node={node:#x}, host_tokens={host_tokens}, host_node={host_node:#x})"
        )
    }
}

impl TieredMatchResult {
    pub(super) fn new(found: TieredMatch, mark: Mark) -> Self {
        let TieredMatch { hit_tokens, node, host_tokens, host_node, .. } = found;
        Self { hit_tokens, node: mark.handle(node), host_tokens, host_node: mark.handle(host_node) }
    }

    /// The resume point at the end of what is on the device, of this cache or another one.
    pub(crate) fn on_device(&self, mark: Mark) -> Resume {
        Resume { node: mark.take(self.node), length: self.hit_tokens }
    }
}

/// What `TieredCache.evict` did.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct EvictResult {
    /// All freed device slots, an int64 array: the caller's from now on.
    #[pyo3(get)]
    slots: Py<PyArray1<i64>>,
    /// Tokens that were freed: the length of `slots`.
    #[pyo3(get)]
    freed: u64,
    /// Of these, tokens that stay on host.
    #[pyo3(get)]
    demoted: u64,
    /// Of these, tokens that were still to be written to host and are lost; always 0 under write-through.
    #[pyo3(get)]
    dropped_dirty: u64,
}

#[pymethods]
impl EvictResult {
    fn __repr__(&self) -> String {
        let Self { freed, demoted, dropped_dirty, .. } = self;
        format!("EvictResult(slots=<{freed}>, freed={freed}, demoted={demoted}, dropped_dirty={dropped_dirty})")
    }
}

impl EvictResult {
    pub(super) fn new(py: Python<'_>, evicted: Evicted, slots: Vec<i64>) -> Self {
        let Evicted { freed, demoted, dropped_dirty, .. } = evicted;
        Self { slots: arrays::owned(py, slots).unbind(), freed, demoted, dropped_dirty }
    }
}

/// Names a prefetch from its wish to its end, in the cache that gave it out.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct PrefetchTicket {
    ticket: isoradix_core::PrefetchTicket,
    mark: Mark,
}

#[pymethods]
impl PrefetchTicket {
    fn __repr__(&self) -> String {
        format!("<{:?}>", self.ticket)
    }
}

impl PrefetchTicket {
    pub(super) fn new(ticket: isoradix_core::PrefetchTicket, mark: Mark) -> Self {
        Self { ticket, mark }
    }

    /// Reads a `ticket` argument.
    pub(super) fn read(given: &Bound<'_, PyAny>, mark: Mark) -> PyResult<isoradix_core::PrefetchTicket> {
        const HINT: &str = "hint: pass what prefetch() of this cache returned, unless that was None";
        let py = given.py();
        let Ok(ticket) = given.cast::<Self>() else {
            let message = format!("ticket is {}, expected a PrefetchTicket\n{HINT}", describe(given));
            return Err(errors::input_type(py, message));
        };
        let Self { ticket, mark: of } = ticket.get();
        if *of != mark {
            let message = format!("ticket {ticket:?} is of another TieredCache\n{HINT}");
            return Err(errors::new(py, Class::InvalidInput, message));
        }
        Ok(*ticket)
    }
}

/// Sizes of a tiered cache at one moment, in tokens (pairs, in bigram mode). Equal on all ranks at every step.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct TierSizes {
    /// All that is on the device.
    #[pyo3(get)]
    total: u64,
    /// Of this, what locks or pins protect.
    #[pyo3(get)]
    protected: u64,
    /// Of this, what pins protect.
    #[pyo3(get)]
    pinned: u64,
    /// What `evict` could free.
    #[pyo3(get)]
    evictable: u64,
    /// What is in both tiers and not held: `evict` loses nothing of it.
    #[pyo3(get)]
    clean: u64,
    /// All that is on host.
    #[pyo3(get)]
    host_total: u64,
    /// Of this, what is on host alone.
    #[pyo3(get)]
    host_only: u64,
}

#[pymethods]
impl TierSizes {
    fn __repr__(&self) -> String {
        let Self { total, protected, pinned, evictable, clean, host_total, host_only } = self;
        format!(
            "TierSizes(total={total}, protected={protected}, pinned={pinned}, evictable={evictable}, clean={clean}, \
             host_total={host_total}, host_only={host_only})"
        )
    }
}

impl From<isoradix_core::TierSizes> for TierSizes {
    fn from(sizes: isoradix_core::TierSizes) -> Self {
        let isoradix_core::Sizes { total, protected, pinned, evictable, .. } = sizes.device;
        let isoradix_core::TierSizes { host_total, host_only, clean, .. } = sizes;
        Self { total, protected, pinned, evictable, clean, host_total, host_only }
    }
}

/// Capacity and occupancy of the host pool at one moment, in pages, as decisions read them. Equal on all ranks at every step.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct HostLedger {
    /// Pages that may be occupied now: what every rank can back, as far as it is agreed.
    #[pyo3(get)]
    capacity: u32,
    /// The capacity agreed at start, above which it never rises.
    #[pyo3(get)]
    start_capacity: u32,
    /// Pages asked for, granted or kept.
    #[pyo3(get)]
    occupied: u32,
    /// Pages that can be asked for now.
    #[pyo3(get)]
    available: u32,
    /// Pages that are occupied above the capacity, since it was lowered: the next close evicts them.
    #[pyo3(get)]
    excess: u32,
}

#[pymethods]
impl HostLedger {
    fn __repr__(&self) -> String {
        let Self { capacity, start_capacity, occupied, available, excess } = self;
        format!(
            "HostLedger(capacity={capacity}, start_capacity={start_capacity}, occupied={occupied}, \
             available={available}, excess={excess})"
        )
    }
}

impl From<&Ledger> for HostLedger {
    fn from(ledger: &Ledger) -> Self {
        Self {
            capacity: ledger.capacity(),
            start_capacity: ledger.start_capacity(),
            occupied: ledger.occupied(),
            available: ledger.available(),
            excess: ledger.excess(),
        }
    }
}

/// An operation in the window, as all ranks know it.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct OperationInfo {
    /// Its ordinal: what a Query, Start or Cancel calls it.
    #[pyo3(get)]
    operation: u64,
    /// What it moves: "backup", "load_back", "prefetch" or "store".
    #[pyo3(get)]
    kind: &'static str,
    /// How far it is: "issued", "queried", "reserved", "committed", "copying", "draining", "done" or "aborted".
    #[pyo3(get)]
    state: &'static str,
    /// Pages asked for; 0 for a store.
    #[pyo3(get)]
    pages: u32,
    /// Tokens asked for.
    #[pyo3(get)]
    tokens: u64,
    /// Tokens that have arrived on every rank.
    #[pyo3(get)]
    progress: u64,
    /// Tokens that it will deliver at most; None before that is agreed.
    #[pyo3(get)]
    committed: Option<u64>,
    /// Tokens that it has delivered; None before it has.
    #[pyo3(get)]
    delivered: Option<u64>,
}

#[pymethods]
impl OperationInfo {
    fn __repr__(&self) -> String {
        let Self { operation, kind, state, pages, tokens, progress, committed, delivered } = self;
        let or_none = |tokens: &Option<u64>| tokens.map_or_else(|| "None".to_owned(), |tokens| tokens.to_string());
        let (committed, delivered) = (or_none(committed), or_none(delivered));
        format!(
            "OperationInfo(operation={operation}, kind='{kind}', state='{state}', pages={pages}, tokens={tokens}, \
             progress={progress}, committed={committed}, delivered={delivered})"
        )
    }
}

impl From<&Operation> for OperationInfo {
    fn from(operation: &Operation) -> Self {
        Self {
            operation: operation.ordinal().0,
            kind: operation.kind().as_str(),
            state: operation.state().as_str(),
            pages: operation.pages(),
            tokens: operation.tokens(),
            progress: operation.progress(),
            committed: operation.committed().map(|share| share.tokens),
            delivered: operation.delivered().map(|share| share.tokens),
        }
    }
}
