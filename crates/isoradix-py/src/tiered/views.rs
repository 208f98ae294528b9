//! A cache over device and host as it is now: sizes, operations, nodes, evidence. Nothing here changes what it decides.

use isoradix_core::protocol::BreakerState;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::answers::{HostLedger, OperationInfo, TierSizes};
use super::totals::TierTotals;
use super::{Given, Machine, TieredCache, whole_tree};
use crate::arrays;
use crate::errors::{self, describe};
use crate::events;
use crate::journal::{self, Record};
use crate::look;
use crate::node::NodeInfo;
use crate::pool::SlotPool;
use crate::ranks::refusals;
use crate::scalars;
use crate::shared::Tree;
use crate::walk::NodeWalk;

#[pymethods]
impl TieredCache {
    /// The logical clock: (step, seq). The step is that of the frame applied last.
    #[getter]
    fn clock(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        look::clock(&self.shared, py)
    }

    /// Sizes of both tiers, in tokens.
    #[getter]
    fn sizes(&self, py: Python<'_>) -> PyResult<TierSizes> {
        self.sizes_now(py).map(TierSizes::from)
    }

    /// What the cache has done so far: tokens moved and evicted, operations by their ends.
    #[getter]
    fn totals(&self, py: Python<'_>) -> PyResult<TierTotals> {
        self.shared.view(py, |machine| machine.cache().totals()).map(TierTotals::from)
    }

    /// Tokens that `evict` could free from the device.
    #[getter]
    fn evictable_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.sizes_now(py).map(|sizes| sizes.device.evictable)
    }

    /// Tokens on the device that locks or pins protect.
    #[getter]
    fn protected_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.sizes_now(py).map(|sizes| sizes.device.protected)
    }

    /// Tokens on the device that pins protect.
    #[getter]
    fn pinned_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.sizes_now(py).map(|sizes| sizes.device.pinned)
    }

    /// Tokens on the device.
    #[getter]
    fn total_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.sizes_now(py).map(|sizes| sizes.device.total)
    }

    /// Nodes in the tree, the root not counted.
    #[getter]
    fn num_nodes(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.tree().num_nodes())
    }

    /// Capacity and occupancy of the host pool, in pages, as decisions read them.
    #[getter]
    fn host_ledger(&self, py: Python<'_>) -> PyResult<HostLedger> {
        self.shared.view(py, |machine| HostLedger::from(machine.cache().host().ledger()))
    }

    /// The highest tier that is on, "l1", "l2" or "l3": what `Control.tiers` said last. "l3" at first.
    #[getter]
    fn top_tier(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.shared.view(py, |machine| machine.cache().top_tier().as_str())
    }

    /// What the breaker in front of external storage lets through: "closed" all of it, "open" nothing, "trial" one operation at a
    /// time. None without a breaker.
    #[getter]
    fn breaker(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.shared.view(py, |machine| machine.cache().breaker().map(BreakerState::as_str))
    }

    /// Its last changes, at most 64, the oldest first: (step, state from there on). Equal on all ranks.
    #[getter]
    fn breaker_changes(&self, py: Python<'_>) -> PyResult<Vec<(u64, &'static str)>> {
        let changes = |machine: &Machine| {
            machine.cache().breaker_changes().map(|change| (change.step, change.state.as_str())).collect()
        };
        self.shared.view(py, changes)
    }

    /// Whether there is external storage to write to: "absent", "opening", "attached" or "detaching".
    #[getter]
    fn attachment(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.shared.view(py, |machine| machine.cache().attachment().as_str())
    }

    /// Operations issued so far: the next one's ordinal.
    #[getter]
    fn issued(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.cache().operations().issued())
    }

    /// Leading operations that are over, one way or the other: equal to `issued` when nothing is under way.
    #[getter]
    fn retired(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.cache().operations().retired())
    }

    /// The operations that are not retired on all ranks, oldest first: `window` of them at most.
    fn operations(&self, py: Python<'_>) -> PyResult<Vec<OperationInfo>> {
        self.shared.view(py, |machine| machine.cache().operations().iter().map(OperationInfo::from).collect())
    }

    /// The namespaces that hold something in either tier, as pairs (extra key, salt), in their own order.
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<(Option<String>, Option<String>)>> {
        look::namespaces(&self.shared, py)
    }

    /// Tokens in a namespace over both tiers; 0 if nothing is cached there.
    ///
    /// Args:
    ///     namespace: (extra key, salt), or None for the default namespace.
    #[pyo3(signature = (namespace = None))]
    fn namespace_size(&self, py: Python<'_>, namespace: Option<Given<'_, '_>>) -> PyResult<u64> {
        look::namespace_size(&self.shared, py, namespace)
    }

    /// Iterates over `node` and all below it, as `PrefixCache.walk`.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    #[pyo3(signature = (node = None))]
    fn walk(&self, py: Python<'_>, node: Option<Given<'_, '_>>) -> PyResult<NodeWalk> {
        look::walk(&self.shared, py, node)
    }

    /// The present state of one node; it says in which tiers the node is.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn node(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<NodeInfo> {
        look::node(&self.shared, py, node)
    }

    /// Tokens of `node` itself, as an int64 array of its length (one more in bigram mode).
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn node_tokens<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        look::node_tokens(&self.shared, py, node)
    }

    /// Slots of `node` itself, as an int64 array of its length; empty if it is on host alone.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn node_slots<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        look::node_slots(&self.shared, py, node)
    }

    /// Host pages of `node` itself, as an int32 array in the order of its tokens; empty if it is not on host. This rank's own.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn node_pages<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let node = self.shared.mark.read_node(node)?;
        let mut pages = Vec::new();
        self.shared.run(py, |machine| machine.cache().host_pages(node, &mut pages))?;
        Ok(arrays::pages(py, pages))
    }

    /// An order of requests that shares the most; see `PrefixCache.dfs_weight_order`.
    ///
    /// Raises:
    ///     StaleHandleError: a node is gone.
    fn dfs_weight_order(&self, py: Python<'_>, nodes: Given<'_, '_>) -> PyResult<Vec<u32>> {
        look::dfs_weight_order(&self.shared, py, nodes)
    }

    /// Bytes that the tree has reserved; see `PrefixCache.memory_bytes`. The books of host pages and operations are left out.
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.tree().memory_bytes())
    }

    /// Checks every invariant of tree, host pages and operations, and with `pool` that each of its slots has exactly one owner.
    ///
    /// Takes time in proportion to the tree and the host pool.
    ///
    /// Args:
    ///     pool: where the device slots come from.
    ///     uncached: slots of `pool` that are allocated but not cached: those of running requests, and those that `reset` has not
    ///         given back yet.
    ///
    /// Raises:
    ///     InvariantError: one does not hold; the message names the nodes and the figures.
    ///     InputTypeError: `pool` is no SlotPool.
    #[pyo3(
        signature = (pool = None, *, uncached = None),
        text_signature = "($self, pool=None, *, uncached=0)"
    )]
    fn check(&self, py: Python<'_>, pool: Option<Given<'_, '_>>, uncached: Option<Given<'_, '_>>) -> PyResult<()> {
        let uncached = uncached.map_or(Ok(0), |slots| scalars::UNCACHED.read(slots))?;
        let Some(pool) = pool else {
            return self.shared.run_sized(py, whole_tree, |machine| machine.cache().check());
        };
        let pool = pool.cast::<SlotPool>().map_err(|_| {
            let given = describe(pool);
            errors::input_type(py, format!("pool is {given}, expected a SlotPool\nhint: pass the pool of the slots"))
        })?;
        // The pool's lock is always taken inside the cache's, never the other way round.
        let look = |machine: &mut Machine| {
            let size = whole_tree(machine);
            let check = move |pool: &mut isoradix_core::SlotPool| {
                machine.cache().check().and_then(|()| machine.tree().check_against(pool, uncached))
            };
            pool.get().enter_sized(py, |pool| size + pool.total(), check)
        };
        self.shared.enter(py, look)??.map_err(|error| self.shared.raise(py, &error))
    }

    /// Checks that no operation holds host pages: to be asked at shutdown.
    ///
    /// Raises:
    ///     HostPoolError: some do; the message lists them.
    fn check_ended(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.view(py, |machine| machine.cache().host().leaks())?.map_err(|error| refusals::from_host(py, &error))
    }

    /// Digest of all decisions so far: equal on every rank that made the same ones in the same order.
    ///
    /// Not in it: slot numbers, host page numbers, timings, probes and inspection.
    #[getter]
    fn decision_digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.tree().decision_digest())
    }

    /// Digest of the tree as it is: its nodes with their tokens, namespaces and tiers, without slots and pages.
    #[getter]
    fn tree_digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |machine| machine.tree().tree_digest())
    }

    /// The last decisions, oldest first: `journal_records` of them at most.
    fn journal(&self, py: Python<'_>) -> PyResult<Vec<Record>> {
        look::journal(&self.shared, py)
    }

    /// The journal as bytes: 64 a record, little-endian, oldest first; see docs/journal.md.
    fn journal_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        look::journal_bytes(&self.shared, py)
    }

    /// The decisions since the last call as bytes, as `journal_bytes`, however many there are. None in the first call, from which on
    /// they are kept for the next one.
    fn take_records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let taken = self.shared.enter(py, |machine| machine.cache_mut().take_records())?;
        Ok(PyBytes::new(py, &journal::to_bytes(&taken)))
    }

    /// The KV events since the last call, oldest first; always empty unless made with `kv_events=True`.
    ///
    /// What waits is bounded, as in `PrefixCache.take_events`.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = self.shared.run(py, |machine| Ok(machine.cache_mut().take_events()))?;
        let list = PyList::empty(py);
        for event in taken {
            list.append(events::to_python(py, event)?)?;
        }
        Ok(list)
    }
}
