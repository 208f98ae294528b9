//! The prefix cache.

use std::sync::Arc;

use isoradix_core::{Config, Ints, JOURNAL_RECORDS_DEFAULT, NodeHandle, PrefixCache as Core};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3::{PyTraverseError, PyVisit};

use crate::arrays;
use crate::errors;
use crate::events;
use crate::guard::PER_NODE;
use crate::handles::Handle;
use crate::ints::{self, Borrow};
use crate::journal::Record;
use crate::look;
use crate::namespace;
use crate::node::NodeInfo;
use crate::policy;
use crate::pool::SlotPool;
use crate::results::{InsertResult, MatchResult, read_resume};
use crate::scalars;
use crate::shared::Shared;
use crate::walk::NodeWalk;

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PrefixCache>()
}

/// A deterministic radix tree over tokens, its eviction order, clock and evidence.
///
/// Equal calls in equal order give equal decisions, in every process and on every machine; the digests show it. The
/// cache keeps books only: it maps sequences of tokens to the device slots that hold their KV entries.
///
/// Args:
///     page_size: tokens in a page, 1 to 1024. Keys are cut down to whole pages.
///     policy: who goes first at eviction: "lru", "lfu", "fifo", "mru", "filo", "priority", "slru[:threshold]",
///         "tlru:threshold,next_prompt", or a function from NodeFacts to an int or a pair of signed 64-bit
///         ints, the smallest first. The function is called whenever a node's facts change; it must be a pure function
///         of them, and must not use the cache.
///     bigram: keys are pairs of neighbours, as for EAGLE drafts: N + 1 tokens make N units. All lengths count units.
///     journal_records: how many decisions the journal keeps.
///     kv_events: whether to collect KV events for `take_events`.
///
/// Raises:
///     InvalidInputError: a value is out of its range, or the policy is not known.
///     InputTypeError: a value has the wrong type.
///
/// Handles of nodes and receipts belong to the cache that gave them out; any other one refuses them.
///
/// Keys and slots are lists or tuples of int, `array.array`, numpy arrays or CPU torch tensors of int32, uint32 or
/// int64; all but lists and tuples are read where they lie. Every call is all or nothing: one that raises changed
/// nothing. Any thread may call; a cache is of no use in a forked child, and cannot be copied or pickled.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct PrefixCache {
    shared: Arc<Shared<Core>>,
    policy: String,
    page_size: u32,
    bigram: bool,
}

impl PrefixCache {
    #[allow(clippy::unused_self)]
    fn refuse_copy(&self, py: Python<'_>) -> PyResult<()> {
        Err(errors::not_copyable(py, "PrefixCache"))
    }
}

// How long a call will take, see `guard::LONG`.

fn length(ints: Ints<'_>) -> u64 {
    ints.len() as u64
}

fn whole_tree(core: &Core) -> u64 {
    core.sizes().total + core.num_nodes() * PER_NODE
}

#[pymethods]
impl PrefixCache {
    #[new]
    #[pyo3(
        signature = (*, page_size = None, policy = None, bigram = None, journal_records = None, kv_events = None),
        text_signature = "(*, page_size=1, policy='lru', bigram=False, journal_records=4096, kv_events=False)"
    )] // the number is JOURNAL_RECORDS_DEFAULT
    fn new(
        py: Python<'_>,
        page_size: Option<Given<'_, '_>>,
        policy: Option<Given<'_, '_>>,
        bigram: Option<Given<'_, '_>>,
        journal_records: Option<Given<'_, '_>>,
        kv_events: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let page_size = page_size.map_or(Ok(1), |size| scalars::PAGE_SIZE.read_u32(size))?;
        let journal_records =
            journal_records.map_or(Ok(JOURNAL_RECORDS_DEFAULT), |count| scalars::JOURNAL_RECORDS.read_u32(count))?;
        let bigram = scalars::flag(bigram, "bigram")?;
        let kv_events = scalars::flag(kv_events, "kv_events")?;
        let (eviction, key_function) = policy::read(policy)?;
        let config = Config { page_size, eviction, bigram, journal_records, kv_events };
        let core = Core::new(config).map_err(|error| errors::from_core(py, &error))?;
        Ok(Self {
            policy: core.policy_name(),
            page_size: core.page_size(),
            bigram: core.is_bigram(),
            shared: Arc::new(Shared::new(core, key_function)),
        })
    }

    /// Finds the longest cached prefix of `key`, and counts it as used now.
    ///
    /// The node where the match ends is split there if need be; every node on the path gets a new stamp.
    ///
    /// Args:
    ///     key: tokens, 0 to 2**32 - 1.
    ///     namespace: (extra key, salt), or None for the default namespace.
    ///     resume: the result of an earlier `match_prefix` or `insert` of a prefix of this key, or its (node, length):
    ///         comparing starts there. `key` is the whole key all the same. That the node is a prefix of it is the
    ///         caller's promise: only its last page, or last 64 tokens, are compared.
    ///
    /// Raises:
    ///     InvalidInputError: a token is out of range, or `resume` does not fit.
    ///     InputTypeError: an argument has a type or dtype that is not accepted.
    ///     StaleHandleError: the node of `resume` is gone.
    #[pyo3(signature = (key, namespace = None, *, resume = None))]
    fn match_prefix(
        &self,
        py: Python<'_>,
        key: Given<'_, '_>,
        namespace: Option<Given<'_, '_>>,
        resume: Option<Given<'_, '_>>,
    ) -> PyResult<MatchResult> {
        let mut borrow = Borrow::default();
        let namespace = namespace::read(namespace)?;
        let resume = read_resume(resume, self.shared.mark)?;
        let key = borrow.read(key, &ints::KEY)?;
        let found = self.shared.run_sized(py, |_| length(key), |core| core.match_prefix(key, &namespace, resume))?;
        Ok(MatchResult::new(found, self.shared.mark))
    }

    /// Length of the longest cached prefix of `key`, in tokens. Changes nothing at all: no stamp, no split, no record.
    ///
    /// Args and errors as for `match_prefix`.
    #[pyo3(signature = (key, namespace = None))]
    fn probe(&self, py: Python<'_>, key: Given<'_, '_>, namespace: Option<Given<'_, '_>>) -> PyResult<u64> {
        let mut borrow = Borrow::default();
        let namespace = namespace::read(namespace)?;
        let key = borrow.read(key, &ints::KEY)?;
        self.shared.run_sized(py, |_| length(key), |core| core.probe(key, &namespace))
    }

    /// Caches `key` with the slots that hold its KV entries.
    ///
    /// Of `key`, cut down to whole pages, the part that is cached already keeps its old slots: the caller frees
    /// `slots[:result.prefix_len]` that are not the cached ones. The cache owns the rest from now on.
    ///
    /// Args:
    ///     key: tokens, 0 to 2**32 - 1.
    ///     slots: one slot, 0 to 2**31 - 1, for each token of the key; with `resume` only for those behind it.
    ///     namespace: (extra key, salt), or None for the default namespace.
    ///     priority: a signed 64-bit int; each node on the path gets the greater of its own and this one.
    ///     resume: as for `match_prefix`.
    ///
    /// Raises:
    ///     InvalidInputError: a token or slot is out of range, lengths do not fit, or `resume` does not.
    ///     InputTypeError: an argument has a type or dtype that is not accepted.
    ///     StaleHandleError: the node of `resume` is gone.
    #[pyo3(
        signature = (key, slots, namespace = None, *, priority = None, resume = None),
        text_signature = "($self, key, slots, namespace=None, *, priority=0, resume=None)"
    )]
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn insert(
        &self,
        py: Python<'_>,
        key: Given<'_, '_>,
        slots: Given<'_, '_>,
        namespace: Option<Given<'_, '_>>,
        priority: Option<Given<'_, '_>>,
        resume: Option<Given<'_, '_>>,
    ) -> PyResult<InsertResult> {
        let (mut key_borrow, mut slots_borrow) = (Borrow::default(), Borrow::default());
        let namespace = namespace::read(namespace)?;
        let priority = scalars::priority(priority)?;
        let resume = read_resume(resume, self.shared.mark)?;
        // Numbers, lists and tensors first, for reading them may run code of the caller's that moves an array's memory.
        key_borrow.prepare(key, &ints::KEY)?;
        slots_borrow.prepare(slots, &ints::SLOTS)?;
        let (key, slots) = (key_borrow.ints(key, &ints::KEY)?, slots_borrow.ints(slots, &ints::SLOTS)?);
        let work = |core: &mut Core| core.insert(key, slots, &namespace, priority, resume);
        let done = self.shared.run_sized(py, |_| length(key), work)?;
        Ok(InsertResult::new(done, self.shared.mark))
    }

    /// Counts `node` and the nodes above it as used now.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn touch(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<()> {
        let node = self.shared.mark.read_node(node)?;
        self.shared.run(py, |core| core.touch(node))
    }

    /// Slots of the whole path from the root to the end of `node`, as an int64 array of its depth.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn slots<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        look::slots(&self.shared, py, node)
    }

    /// Protects `node` and every node above it from eviction until the receipt comes back to `unlock`.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn lock(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<u64> {
        let node = self.shared.mark.read_node(node)?;
        self.shared.run(py, |core| core.lock(node)).map(|receipt| self.shared.mark.lock_receipt(receipt))
    }

    /// Ends the lock that `receipt` stands for.
    ///
    /// Raises:
    ///     ReceiptError: the receipt was given back before, was never given out, or died with a `reset`.
    fn unlock(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<()> {
        let receipt = self.shared.mark.read_lock_receipt(receipt)?;
        self.shared.run(py, |core| core.unlock(receipt))
    }

    /// As `lock`, counted on its own: for entries that are kept for a longer time than one request.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn pin(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<u64> {
        let node = self.shared.mark.read_node(node)?;
        self.shared.run(py, |core| core.pin(node)).map(|receipt| self.shared.mark.pin_receipt(receipt))
    }

    /// Ends the pin that `receipt` stands for.
    ///
    /// Raises:
    ///     ReceiptError: the receipt was given back before, was never given out, or died with a `reset`.
    fn unpin(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<()> {
        let receipt = self.shared.mark.read_pin_receipt(receipt)?;
        self.shared.run(py, |core| core.unpin(receipt))
    }

    /// Drops whole leaves, in the order of the policy, until `num_tokens` are freed or nothing unlocked is left.
    ///
    /// Returns:
    ///     An int64 array of all freed slots, the caller's from now on. Its length is what was freed.
    ///
    /// Raises:
    ///     InvalidInputError: `num_tokens` is negative.
    ///     PolicyError: the key function fails on a leaf, asked once more before the first one goes. Nothing is dropped.
    ///
    /// A key function may also fail on a node that becomes a leaf during the eviction, when its last child has gone. What
    /// is dropped by then cannot be taken back, so that leaf is passed over and nothing is raised: the array may be
    /// shorter than `num_tokens` although unlocked leaves are left. The next `evict` asks again, and raises if need be.
    fn evict<'py>(&self, py: Python<'py>, num_tokens: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let num_tokens = scalars::NUM_TOKENS.read(num_tokens)?;
        let mut slots = Vec::new();
        let size = |core: &Core| num_tokens.min(core.sizes().evictable);
        self.shared.run_sized(py, size, |core| core.evict(num_tokens, &mut slots))?;
        Ok(arrays::owned(py, slots))
    }

    /// Drops everything in a namespace.
    ///
    /// Args:
    ///     namespace: (extra key, salt). The default namespace has to be spelt out: (None, None).
    ///
    /// Returns:
    ///     An int64 array of all freed slots, the caller's from now on.
    ///
    /// Raises:
    ///     HeldError: some of it is locked or pinned. Nothing is dropped.
    ///     InputTypeError: `namespace` is no such pair.
    fn remove_namespace<'py>(&self, py: Python<'py>, namespace: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let namespace = namespace::read_required(namespace)?;
        let mut slots = Vec::new();
        let size = |core: &Core| core.namespace_size(&namespace);
        self.shared.run_sized(py, size, |core| core.remove_namespace(&namespace, &mut slots))?;
        Ok(arrays::owned(py, slots))
    }

    /// Drops everything, held or not. Receipts and handles die; clock, sequence numbers and digests go on.
    ///
    /// Returns:
    ///     The number of tokens dropped. The caller resets its slot pool.
    fn reset(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.run_sized(py, whole_tree, |core| Ok(core.reset()))
    }

    /// Enters the next step of the logical clock, or a later one if `step` says so.
    ///
    /// Returns:
    ///     The step entered.
    ///
    /// Raises:
    ///     InvalidInputError: `step` is not later than the present one.
    #[pyo3(signature = (step = None))]
    fn advance_step(&self, py: Python<'_>, step: Option<Given<'_, '_>>) -> PyResult<u64> {
        let step = step.map(|step| scalars::STEP.read(step)).transpose()?;
        self.shared.run(py, |core| core.advance_step(step))
    }

    /// The logical clock: (step, seq).
    #[getter]
    fn clock(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        look::clock(&self.shared, py)
    }

    /// Tokens that `evict` could free.
    #[getter]
    fn evictable_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |core| core.sizes().evictable)
    }

    /// Tokens that locks or pins protect.
    #[getter]
    fn protected_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |core| core.sizes().protected)
    }

    /// Tokens that pins protect.
    #[getter]
    fn pinned_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |core| core.sizes().pinned)
    }

    /// Tokens in the cache.
    #[getter]
    fn total_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, |core| core.sizes().total)
    }

    /// Nodes in the tree, the root not counted.
    #[getter]
    fn num_nodes(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, Core::num_nodes)
    }

    /// The namespaces that hold something, as pairs (extra key, salt), in their own order.
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<(Option<String>, Option<String>)>> {
        look::namespaces(&self.shared, py)
    }

    /// Tokens in a namespace; 0 if nothing is cached there.
    ///
    /// Args:
    ///     namespace: (extra key, salt), or None for the default namespace.
    #[pyo3(signature = (namespace = None))]
    fn namespace_size(&self, py: Python<'_>, namespace: Option<Given<'_, '_>>) -> PyResult<u64> {
        look::namespace_size(&self.shared, py, namespace)
    }

    /// Iterates over `node` and all below it, depth first, parents first; over the whole tree if `node` is None. The
    /// root, which holds nothing, is left out.
    ///
    /// The nodes are those of the moment of the call; each is looked at when the iteration reaches it, and left out if
    /// it is gone by then.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    #[pyo3(signature = (node = None))]
    fn walk(&self, py: Python<'_>, node: Option<Given<'_, '_>>) -> PyResult<NodeWalk> {
        look::walk(&self.shared, py, node)
    }

    /// The present state of one node.
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

    /// Slots of `node` itself, as an int64 array of its length.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn node_slots<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        look::node_slots(&self.shared, py, node)
    }

    /// An order of requests that shares the most: depth first, the subtree with the most requests first.
    ///
    /// Args:
    ///     nodes: the node that each waiting request matched.
    ///
    /// Returns:
    ///     Indices into `nodes`, in the order to schedule.
    ///
    /// Raises:
    ///     StaleHandleError: a node is gone.
    fn dfs_weight_order(&self, py: Python<'_>, nodes: Given<'_, '_>) -> PyResult<Vec<u32>> {
        look::dfs_weight_order(&self.shared, py, nodes)
    }

    /// Bytes that the cache has reserved: nodes, tokens, slots, edges and namespaces of the tree, the eviction order,
    /// receipts, the journal and KV events with the block hashes that they need.
    ///
    /// What is reserved and was never written to counts, although it may take no memory yet. Namespaces and KV events are
    /// counted by their contents, which is close. Left out are the Python objects and a key function's own memory.
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, Core::memory_bytes)
    }

    /// Checks every invariant of the tree, and with `pool` that each of its slots has exactly one owner.
    ///
    /// Takes time in proportion to the tree.
    ///
    /// Args:
    ///     pool: where the slots come from.
    ///     uncached: slots of `pool` that are allocated but not cached: those of running requests.
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
            return self.shared.run_sized(py, whole_tree, |core| core.check());
        };
        let pool = pool.cast::<SlotPool>().map_err(|_| {
            let given = errors::describe(pool);
            errors::input_type(py, format!("pool is {given}, expected a SlotPool\nhint: pass the pool of the slots"))
        })?;
        // The pool's lock is always taken inside the cache's, never the other way round.
        let look = |core: &mut Core| {
            let size = whole_tree(core);
            pool.get().enter_sized(py, |pool| size + pool.total(), move |pool| core.check_against(pool, uncached))
        };
        self.shared.enter(py, look)??.map_err(|error| self.shared.raise(py, &error))
    }

    /// Digest of all decisions so far: equal on every rank that made the same ones in the same order.
    ///
    /// Not in it: slot numbers, timings, probes and inspection.
    #[getter]
    fn decision_digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, Core::decision_digest)
    }

    /// Digest of the tree as it is: its nodes with their tokens and namespaces, without slots.
    #[getter]
    fn tree_digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.view(py, Core::tree_digest)
    }

    /// The last decisions, oldest first: `journal_records` of them at most.
    fn journal(&self, py: Python<'_>) -> PyResult<Vec<Record>> {
        look::journal(&self.shared, py)
    }

    /// The journal as bytes: 64 a record, little-endian, oldest first; see docs/journal.md.
    fn journal_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        look::journal_bytes(&self.shared, py)
    }

    /// The KV events since the last call, oldest first; always empty unless made with `kv_events=True`.
    ///
    /// What waits is bounded, to about four million hashes and tokens. Beyond that all of it is dropped, and the next call
    /// gives `AllBlocksCleared` and then a `BlockStored` for each node that is cached by then, parents first.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = self.shared.run(py, |core| Ok(core.take_events()))?;
        let list = PyList::empty(py);
        for event in taken {
            list.append(events::to_python(py, event)?)?;
        }
        Ok(list)
    }

    /// Handle of the root, whose depth is 0. It never dies, and is the same in every cache.
    #[getter]
    fn root(&self) -> Handle {
        self.shared.mark.handle(NodeHandle::ROOT)
    }

    /// Tokens in a page.
    #[getter]
    fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Name of the eviction policy, with its parameters; "python:" and its name for a key function.
    #[getter]
    fn policy(&self) -> &str {
        &self.policy
    }

    /// Whether keys are pairs of neighbouring tokens.
    #[getter]
    fn bigram(&self) -> bool {
        self.bigram
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Self { page_size, policy, .. } = self;
        let bigram = if self.bigram { "True" } else { "False" };
        // A representation never raises, not even in a forked child or in a key function.
        let state = self.shared.view(py, |core| (core.sizes(), core.num_nodes())).map_or_else(
            |_| "not usable here".to_owned(),
            |(sizes, nodes)| {
                format!("total_size={}, protected_size={}, num_nodes={nodes}", sizes.total, sizes.protected)
            },
        );
        format!("<PrefixCache page_size={page_size}, policy='{policy}', bigram={bigram}: {state}>")
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, memo: Given<'_, '_>) -> PyResult<()> {
        let _ = memo;
        self.refuse_copy(py)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_copy(py)
    }

    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        self.refuse_copy(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.key_function.as_ref().map_or(Ok(()), |function| function.traverse(&visit))
    }

    fn __clear__(&self) {
        if let Some(function) = &self.shared.key_function {
            function.clear();
        }
    }
}

impl Drop for PrefixCache {
    fn drop(&mut self) {
        // A walk may keep the core, but calls no key function: it must not keep that one out of the collector's sight.
        self.__clear__();
    }
}
