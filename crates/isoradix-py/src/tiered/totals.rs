//! What a tiered cache has done so far.

use isoradix_core::OperationTotals;
use isoradix_core::operation::{Event, Kind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TierTotals>()
}

/// What a tiered cache has done so far, in tokens (pairs, in bigram mode). Equal on all ranks at every step; no decision reads it,
/// and no digest holds it.
///
/// Numbers only grow, but for `limbo_slots` and `limbo_pages`. Of what operations have brought, what a `reset` or the removal of
/// its namespace had made void is left out.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct TierTotals(isoradix_core::TierTotals);

#[pymethods]
impl TierTotals {
    /// Tokens that `evict` freed on the device. What `remove_namespace` and `reset` drop is no eviction.
    #[getter]
    fn evicted_tokens(&self) -> u64 {
        self.0.evicted_tokens
    }

    /// Of these, what stayed on host.
    #[getter]
    fn demoted_tokens(&self) -> u64 {
        self.0.demoted_tokens
    }

    /// Of these, what was still to be written to host and was lost; always 0 under write-through.
    #[getter]
    fn dropped_dirty_tokens(&self) -> u64 {
        self.0.dropped_dirty_tokens
    }

    /// Tokens that evictions freed on host, those of a closing step among them.
    #[getter]
    fn host_evicted_tokens(&self) -> u64 {
        self.0.host_evicted_tokens
    }

    /// Tokens whose host copies were given up for room while they stayed on the device; always 0 under write-through.
    #[getter]
    fn reclaimed_tokens(&self) -> u64 {
        self.0.reclaimed_tokens
    }

    /// Tokens that backups brought to host.
    #[getter]
    fn backed_up_tokens(&self) -> u64 {
        self.0.backed_up_tokens
    }

    /// Tokens that load-backs brought to the device, counted once the copies have ended on every rank.
    #[getter]
    fn loaded_back_tokens(&self) -> u64 {
        self.0.loaded_back_tokens
    }

    /// Tokens that prefetches brought to host, and for which the tree had a use.
    #[getter]
    fn prefetched_tokens(&self) -> u64 {
        self.0.prefetched_tokens
    }

    /// Tokens that stores brought to external storage.
    #[getter]
    fn stored_tokens(&self) -> u64 {
        self.0.stored_tokens
    }

    /// Tokens that were to be stored and are given up: their stores failed as often as they may, or were aborted, they left host before,
    /// or storage was switched off, or detached while the breaker was open.
    #[getter]
    fn given_up_tokens(&self) -> u64 {
        self.0.given_up_tokens
    }

    /// Times that the breaker in front of external storage has opened.
    #[getter]
    fn breaker_opened(&self) -> u64 {
        self.0.breaker_opened
    }

    /// Times that it has closed again.
    #[getter]
    fn breaker_closed(&self) -> u64 {
        self.0.breaker_closed
    }

    /// Tokens whose device slots resets have kept back, since copies were under way, in all.
    #[getter]
    fn limbo_tokens(&self) -> u64 {
        self.0.limbo_tokens
    }

    /// Device slots that are kept back now; they come as `FreeSlots`.
    #[getter]
    fn limbo_slots(&self) -> u64 {
        self.0.limbo_slots
    }

    /// Host pages that are kept back now.
    #[getter]
    fn limbo_pages(&self) -> u64 {
        self.0.limbo_pages
    }

    /// Operations that were issued, by kind: "backup", "load_back", "prefetch" and "store".
    #[getter]
    fn issued<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kind(py, |totals| totals.issued)
    }

    /// Operations that have ended well, by kind.
    #[getter]
    fn done<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kind(py, |totals| totals.done)
    }

    /// Operations that storage failed, and whose work was taken up by another one, by kind.
    #[getter]
    fn retried<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kind(py, |totals| totals.retried)
    }

    /// Wishes, or parts of a step's wishes, that were turned down, by kind: they became no operation.
    #[getter]
    fn declined<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_kind(py, |totals| totals.declined)
    }

    /// Operations that have ended early, by (kind, reason): "short", "miss", "failed", "terminate", "time_out" or "abort". All
    /// pairs are there. They count from that moment on; some may still drain.
    #[getter]
    fn aborted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for kind in Kind::ALL {
            for reason in Event::ENDINGS {
                counts.set_item((kind.as_str(), reason.as_str()), self.0.of(kind).aborted(reason))?;
            }
        }
        Ok(counts)
    }

    fn __repr__(&self) -> String {
        let isoradix_core::TierTotals { evicted_tokens, backed_up_tokens, loaded_back_tokens, .. } = self.0;
        let issued: u64 = Kind::ALL.iter().map(|kind| self.0.of(*kind).issued).sum();
        format!(
            "<TierTotals evicted_tokens={evicted_tokens}, backed_up_tokens={backed_up_tokens}, \
             loaded_back_tokens={loaded_back_tokens}, {issued} operations issued>"
        )
    }
}

impl TierTotals {
    fn by_kind<'py>(&self, py: Python<'py>, count: fn(OperationTotals) -> u64) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for kind in Kind::ALL {
            counts.set_item(kind.as_str(), count(self.0.of(kind)))?;
        }
        Ok(counts)
    }
}

impl From<isoradix_core::TierTotals> for TierTotals {
    fn from(totals: isoradix_core::TierTotals) -> Self {
        Self(totals)
    }
}
