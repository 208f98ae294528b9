//! The cache over device and host.

mod answers;
mod components;
mod config;
mod machine;
mod totals;
mod views;

use std::sync::Arc;

use isoradix_core::host::{Backing, HostPool};
use isoradix_core::{
    Config, Ints, JOURNAL_RECORDS_DEFAULT, NodeHandle, PerRank, PrefetchState, TierSizes as Sizes, TieredCache as Core,
};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::arrays;
use crate::errors::{self, describe};
use crate::guard::PER_NODE;
use crate::handles::Handle;
use crate::ints::{self, Borrow};
use crate::look;
use crate::namespace;
use crate::policy;
use crate::ranks::{Agreement, refusals};
use crate::results::{InsertResult, read_resume};
use crate::scalars;
use crate::shared::{Shared, Tree};
use answers::{EvictResult, PrefetchTicket};
use config::{Arguments, Breaking, Patience, Retrying};

pub(crate) use answers::TieredMatchResult;
pub(crate) use machine::Machine;

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    answers::register(module)?;
    totals::register(module)?;
    module.add_class::<TieredCache>()
}

/// A prefix cache over device (L1) and host (L2), equal on all ranks at every step.
///
/// Verbs change the tree at once and wish for copies. A `Rank` that has the cache turns the wishes of a step into operations
/// when the step is closed, and applies what all ranks have agreed about them when it enters the next one. What every verb
/// answers follows from the calls and the frames applied, and is the same on every rank; only slots and pages are a rank's own.
///
/// Args:
///     rank: this rank, as messages name it.
///     host_pages: pages of host memory that this rank has, each as large as a page of the device; 0 to 2**31 - 1. None if it has no
///         KV to move, as a pipeline stage without attention: then it copies nothing and has no say in any operation, and its
///         `StartRecord` was made without a capacity.
///     agreement: what `agree` gave, with the capacity that all ranks can serve.
///     page_size, policy, bigram, journal_records, kv_events: as for `PrefixCache`.
///     writing: when what is on the device comes to host. "through:HITS" once so many inserts have passed it: 1 for everything,
///         2 for what is used again. "back:TOKENS" writes the oldest while less than so many tokens are free on the device or
///         could be freed without loss.
///     load_back_min: fewest tokens that are worth loading back from host.
///     prefetch_min: fewest tokens that are worth fetching from storage.
///     storage: whether what comes to host is written on to external storage (L3).
///     window: operations that may be open at a time, 1 to 4096; that of the board and of the vote machine.
///     prefetch_patience: milliseconds that a request waits for a prefetch, from its first `poll_prefetch` on, before the
///         leader ends it: (base, for each 1,024 tokens, at most), or None to wait for ever.
///     storage_breaker: when external storage is left alone by all ranks: (failures in a row, milliseconds for which it is,
///         trials that must succeed before it is used as before, milliseconds after which an operation counts as failed).
///         None to go on asking whatever it does.
///     storage_retry: of a prefetch or a store that storage has failed, (attempts in all, milliseconds before a store's second,
///         milliseconds at most: the pause doubles). A prefetch is tried again at once, within its patience.
///     components: what the model keeps beside the keys and values of its full attention, up to 8, as "NAME=KIND": "window:TOKENS" for
///         sliding-window attention that looks back so far, "state" for a recurrent state (mamba), "side_car" for keys and values
///         beside the main ones (an index, a draft model). A match ends where all of them are usable; a prefetch is all or
///         nothing, up to the deepest end that every rank has.
///     components_elsewhere: names of those that this rank's pipeline stage has no layers of. A rank's own.
///
/// All but `rank`, `host_pages` and `components_elsewhere` must be equal on all ranks: put them into the `StartRecord`.
///
/// Raises:
///     InvalidInputError: a value is out of its range, or the policy or the writing is not known.
///     InputTypeError: a value has the wrong type.
///     OutOfSlotsError: the machine has no memory for the books of so many host pages. Also a MemoryError.
///
/// Handles and receipts, keys and slots are as in `PrefixCache`, and as there every call is all or nothing, and any thread may
/// call. A cache is of no use in a forked child, and cannot be copied or pickled.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct TieredCache {
    pub(crate) shared: Arc<Shared<Machine>>,
    policy: String,
    page_size: u32,
    bigram: bool,
    pub(crate) rank: u32,
    pub(crate) window: u32,
}

fn state_name(state: PrefetchState) -> &'static str {
    match state {
        PrefetchState::Wished => "wished",
        PrefetchState::Issued(_) => "issued",
        PrefetchState::Over => "over",
    }
}

// How long a call will take, see `guard::LONG`.

fn length(ints: Ints<'_>) -> u64 {
    ints.len() as u64
}

fn whole_tree(machine: &Machine) -> u64 {
    let Sizes { device, host_total, .. } = machine.cache().sizes();
    device.total + host_total + machine.tree().num_nodes() * PER_NODE
}

impl TieredCache {
    fn sizes_now(&self, py: Python<'_>) -> PyResult<Sizes> {
        self.shared.view(py, |machine| machine.cache().sizes())
    }
}

#[pymethods]
impl TieredCache {
    #[new]
    #[pyo3(
        signature = (
            *, rank, host_pages, agreement, page_size = None, policy = None, bigram = None, journal_records = None,
            kv_events = None, writing = None, load_back_min = None, prefetch_min = None, storage = None, window = None,
            prefetch_patience = Patience::default(), storage_breaker = Breaking::default(),
            storage_retry = Retrying::default(), components = None, components_elsewhere = None
        ),
        text_signature = "(*, rank, host_pages, agreement, page_size=1, policy='lru', bigram=False, \
                          journal_records=4096, kv_events=False, writing='through:1', load_back_min=10, \
                          prefetch_min=256, storage=False, window=64, prefetch_patience=(1000, 250, 10000), storage_breaker=(5, 10000, 2, 30000), \
                          storage_retry=(3, 100, 5000), components=(), components_elsewhere=())"
    )] // the numbers are JOURNAL_RECORDS_DEFAULT and those of Tiers::default
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn new(
        py: Python<'_>,
        rank: Given<'_, '_>,
        host_pages: Given<'_, '_>,
        agreement: Given<'_, '_>,
        page_size: Option<Given<'_, '_>>,
        policy: Option<Given<'_, '_>>,
        bigram: Option<Given<'_, '_>>,
        journal_records: Option<Given<'_, '_>>,
        kv_events: Option<Given<'_, '_>>,
        writing: Option<Given<'_, '_>>,
        load_back_min: Option<Given<'_, '_>>,
        prefetch_min: Option<Given<'_, '_>>,
        storage: Option<Given<'_, '_>>,
        window: Option<Given<'_, '_>>,
        prefetch_patience: Patience,
        storage_breaker: Breaking,
        storage_retry: Retrying,
        components: Option<Given<'_, '_>>,
        components_elsewhere: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let rank = scalars::RANK.read_u32(rank)?;
        let host_pages = if host_pages.is_none() { None } else { Some(scalars::HOST_PAGES.read_u32(host_pages)?) };
        let capacity = Agreement::read(agreement)?.capacity_pages;
        let page_size = page_size.map_or(Ok(1), |size| scalars::PAGE_SIZE.read_u32(size))?;
        let journal_records =
            journal_records.map_or(Ok(JOURNAL_RECORDS_DEFAULT), |count| scalars::JOURNAL_RECORDS.read_u32(count))?;
        let bigram = scalars::flag(bigram, "bigram")?;
        let kv_events = scalars::flag(kv_events, "kv_events")?;
        let (patience, breaker, retry) = (prefetch_patience, storage_breaker, storage_retry);
        let below = Arguments { writing, load_back_min, prefetch_min, storage, window, patience, breaker, retry };
        let tiers = below.read()?;
        let (eviction, key_function) = policy::read(policy)?;
        let config = Config { page_size, eviction, bigram, journal_records, kv_events };
        let pool = match host_pages {
            Some(pages) => HostPool::new(PerRank::observe(pages), capacity, Backing::Voting),
            None => HostPool::without_memory(capacity),
        };
        let pool = pool.map_err(|error| refusals::from_host(py, &error))?;
        let components = components::read(py, page_size, components, components_elsewhere)?;
        let core = Core::new(rank, config, tiers, pool).map_err(|error| errors::from_core(py, &error))?;
        let core = core.with_components(components);
        Ok(Self {
            policy: core.cache().policy_name(),
            page_size: core.cache().page_size(),
            bigram: core.cache().is_bigram(),
            rank,
            window: tiers.window,
            shared: Arc::new(Shared::new(Machine::new(core), key_function)),
        })
    }

    /// Finds the longest cached prefix of `key` over both tiers, and counts it as used now.
    ///
    /// Args and errors as for `PrefixCache.match_prefix`.
    #[pyo3(signature = (key, namespace = None, *, resume = None))]
    fn match_prefix(
        &self,
        py: Python<'_>,
        key: Given<'_, '_>,
        namespace: Option<Given<'_, '_>>,
        resume: Option<Given<'_, '_>>,
    ) -> PyResult<TieredMatchResult> {
        let mut borrow = Borrow::default();
        let namespace = namespace::read(namespace)?;
        let resume = read_resume(resume, self.shared.mark)?;
        let key = borrow.read(key, &ints::KEY)?;
        let work = |machine: &mut Machine| machine.cache_mut().match_prefix(key, &namespace, resume);
        let found = self.shared.run_sized(py, |_| length(key), work)?;
        Ok(TieredMatchResult::new(found, self.shared.mark))
    }

    /// Length of the longest cached prefix of `key` over both tiers, in tokens. Changes nothing at all.
    ///
    /// Args and errors as for `PrefixCache.match_prefix`.
    #[pyo3(signature = (key, namespace = None))]
    fn probe(&self, py: Python<'_>, key: Given<'_, '_>, namespace: Option<Given<'_, '_>>) -> PyResult<u64> {
        let mut borrow = Borrow::default();
        let namespace = namespace::read(namespace)?;
        let key = borrow.read(key, &ints::KEY)?;
        self.shared.run_sized(py, |_| length(key), |machine| machine.cache().probe(key, &namespace))
    }

    /// Caches `key` on the device with the slots that hold its KV entries; what of it is on host alone takes its slots as well.
    ///
    /// Under write-through, whatever has the hits now is written to host when the step is closed.
    ///
    /// With components, `prefix_len` ends before the first node that lacks what computing gives and that nothing holds: its slots come
    /// back as `FreeSlots`. So hold what you have matched until then. And `length` may end before what is held and lacks some.
    ///
    /// Args and errors as for `PrefixCache.insert`; also InvalidInputError if `resume` is deeper than what is on the device.
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
        // As in `PrefixCache.insert`: reading either may run code that moves the memory of the other.
        key_borrow.prepare(key, &ints::KEY)?;
        slots_borrow.prepare(slots, &ints::SLOTS)?;
        let (key, slots) = (key_borrow.ints(key, &ints::KEY)?, slots_borrow.ints(slots, &ints::SLOTS)?);
        let work = |machine: &mut Machine| {
            let done = machine.cache_mut().insert(key, slots, &namespace, priority, resume)?;
            machine.coming += done.length;
            Ok(done)
        };
        let done = self.shared.run_sized(py, |_| length(key), work)?;
        Ok(InsertResult::new(done, self.shared.mark))
    }

    /// Counts `node` and the nodes above it as used now.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn touch(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<()> {
        let node = self.shared.mark.read_node(node)?;
        self.shared.run(py, |machine| machine.cache_mut().touch(node))
    }

    /// The states at the end of `node` are kept on the device from now on, in the row of its last page: a match may end there, until
    /// the node leaves the device. They go to host with the node, if it is not there yet.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    ///     InvalidInputError: it is not on the device, or the cache has no state among its components.
    fn keep_states(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<()> {
        let node = self.shared.mark.read_node(node)?;
        self.shared.run(py, |machine| machine.cache_mut().keep_states(node))
    }

    /// What is there beside the keys and values of each page of `node`, on the device and on host: a list of two uint8 arrays, with a bit for each
    /// component. Empty where there are none.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn parts<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<[Bound<'py, PyArray1<u8>>; 2]> {
        let node = self.shared.mark.read_node(node)?;
        let (device, host) = self.shared.run(py, |machine| machine.cache().parts(node))?;
        Ok([device, host].map(|parts| arrays::owned(py, parts)))
    }

    /// What the model keeps beside keys and values, as the cache was given it, each at the place of its bit.
    #[getter]
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let all = self.shared.view(py, |machine| components::show(machine.cache().components()))?;
        PyTuple::new(py, all)
    }

    /// Slots of the path from the root to `node`, as far as it is on the device, as an int64 array.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn slots<'py>(&self, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        look::slots(&self.shared, py, node)
    }

    /// Keeps `node` and every node above it in the tiers in which they are, until the receipt comes back to `unlock`.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn lock(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<u64> {
        let node = self.shared.mark.read_node(node)?;
        let receipt = self.shared.run(py, |machine| machine.cache_mut().lock(node))?;
        Ok(self.shared.mark.lock_receipt(receipt))
    }

    /// Ends the lock that `receipt` stands for.
    ///
    /// Raises:
    ///     ReceiptError: the receipt was given back before, was never given out, or died with a `reset`.
    fn unlock(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<()> {
        let receipt = self.shared.mark.read_lock_receipt(receipt)?;
        self.shared.run(py, |machine| machine.cache_mut().unlock(receipt))
    }

    /// As `lock`, counted on its own: for entries that are kept for a longer time than one request.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    fn pin(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<u64> {
        let node = self.shared.mark.read_node(node)?;
        let receipt = self.shared.run(py, |machine| machine.cache_mut().pin(node))?;
        Ok(self.shared.mark.pin_receipt(receipt))
    }

    /// Ends the pin that `receipt` stands for.
    ///
    /// Raises:
    ///     ReceiptError: the receipt was given back before, was never given out, or died with a `reset`.
    fn unpin(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<()> {
        let receipt = self.shared.mark.read_pin_receipt(receipt)?;
        self.shared.run(py, |machine| machine.cache_mut().unpin(receipt))
    }

    /// Keeps what is on host of `node` and of every node above it: what a match promised is there until the receipt is given
    /// back, to `unlock_host` or to a `load_back` that is not declined.
    ///
    /// Raises:
    ///     StaleHandleError: the node is gone.
    ///     InvalidInputError: the node is not on host.
    fn host_lock(&self, py: Python<'_>, node: Given<'_, '_>) -> PyResult<u64> {
        let node = self.shared.mark.read_node(node)?;
        let receipt = self.shared.run(py, |machine| machine.cache_mut().host_lock(node))?;
        Ok(self.shared.mark.host_lock_receipt(receipt))
    }

    /// Ends the host lock that `receipt` stands for.
    ///
    /// Raises:
    ///     ReceiptError: the receipt was given back before, was never given out, or died with a `reset`.
    fn unlock_host(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<()> {
        let receipt = self.shared.mark.read_host_lock_receipt(receipt)?;
        self.shared.run(py, |machine| machine.cache_mut().unlock_host(receipt))
    }

    /// Device slots that `load_back` takes; 0 if it would decline: fewer tokens than are worth it, or the window is full.
    ///
    /// Raises:
    ///     ReceiptError: the host lock is not outstanding.
    fn load_back_need(&self, py: Python<'_>, receipt: Given<'_, '_>) -> PyResult<u64> {
        let receipt = self.shared.mark.read_host_lock_receipt(receipt)?;
        self.shared.run(py, |machine| machine.cache().load_back_need(receipt))
    }

    /// Brings all that is on host alone, up to the node of the host lock, onto the device: all of it or nothing.
    ///
    /// The nodes are on the device at once, locked until the copy is done. The copy begins when the step is closed; compute that
    /// needs them waits for this rank's own copy.
    ///
    /// Args:
    ///     receipt: of `host_lock`; used up if anything is loaded.
    ///     slots: `load_back_need(receipt)` device slots, the cache's from now on.
    ///
    /// Returns:
    ///     The tokens that are loaded; 0 if it is declined, and then nothing has changed.
    ///
    /// Raises:
    ///     ReceiptError: the host lock is not outstanding.
    ///     InvalidInputError: a slot is out of range, or there are more or fewer than needed.
    ///     InputTypeError: an argument has a type or dtype that is not accepted.
    fn load_back(&self, py: Python<'_>, receipt: Given<'_, '_>, slots: Given<'_, '_>) -> PyResult<u64> {
        let mut borrow = Borrow::default();
        let receipt = self.shared.mark.read_host_lock_receipt(receipt)?;
        let slots = borrow.read(slots, &ints::SLOTS)?;
        let work = |machine: &mut Machine| {
            let loaded = machine.cache_mut().load_back(receipt, slots)?;
            machine.coming += loaded;
            Ok(loaded)
        };
        self.shared.run_sized(py, |_| length(slots), work)
    }

    /// Wishes for what external storage has of `key` below `anchor`.
    ///
    /// It is asked for when the step is closed. What comes in is on host alone from the frame on that ends the prefetch.
    ///
    /// Args:
    ///     key: all tokens from the start, 0 to 2**32 - 1.
    ///     namespace: (extra key, salt), or None for the default namespace.
    ///     anchor: a node of the key's path that is on host; None for the root.
    ///
    /// Returns:
    ///     A ticket; None if it is declined: too few tokens, the window is full, or the anchor is not on host.
    ///
    /// Raises:
    ///     InvalidInputError: a token is out of range, or the anchor is not on the key's path.
    ///     InputTypeError: an argument has a type or dtype that is not accepted.
    ///     StaleHandleError: the anchor is gone.
    #[pyo3(signature = (key, namespace = None, *, anchor = None))]
    fn prefetch(
        &self,
        py: Python<'_>,
        key: Given<'_, '_>,
        namespace: Option<Given<'_, '_>>,
        anchor: Option<Given<'_, '_>>,
    ) -> PyResult<Option<PrefetchTicket>> {
        let mut borrow = Borrow::default();
        let namespace = namespace::read(namespace)?;
        let anchor = anchor.map_or(Ok(NodeHandle::ROOT), |node| self.shared.mark.read_node(node))?;
        let key = borrow.read(key, &ints::KEY)?;
        let work = |machine: &mut Machine| {
            let ticket = machine.cache_mut().prefetch(key, &namespace, anchor)?;
            machine.coming += length(key);
            Ok(ticket)
        };
        let ticket = self.shared.run_sized(py, |_| length(key), work)?;
        Ok(ticket.map(|ticket| PrefetchTicket::new(ticket, self.shared.mark)))
    }

    /// How far a prefetch is: "wished" until the step is closed, "issued" while it is under way, "over" once it has delivered
    /// what it will, or was not issued.
    ///
    /// Raises:
    ///     InputTypeError: `ticket` is no PrefetchTicket.
    ///     InvalidInputError: it is another cache's.
    fn prefetch_state(&self, py: Python<'_>, ticket: Given<'_, '_>) -> PyResult<&'static str> {
        let ticket = PrefetchTicket::read(ticket, self.shared.mark)?;
        Ok(state_name(self.shared.view(py, |machine| machine.cache().prefetch_state(ticket))?))
    }

    /// As `prefetch_state`, for a request that waits for it: `prefetch_patience` begins with the first such call. Only the
    /// leader's calls count, and all ranks hear of the end by the frame.
    ///
    /// Raises:
    ///     InputTypeError: `ticket` is no PrefetchTicket.
    ///     InvalidInputError: it is another cache's.
    fn poll_prefetch(&self, py: Python<'_>, ticket: Given<'_, '_>) -> PyResult<&'static str> {
        let ticket = PrefetchTicket::read(ticket, self.shared.mark)?;
        Ok(state_name(self.shared.enter(py, |machine| machine.cache_mut().poll_prefetch(ticket))?))
    }

    /// The operation of a prefetch that is under way, for a `Control`; else None.
    ///
    /// Raises:
    ///     InputTypeError: `ticket` is no PrefetchTicket.
    ///     InvalidInputError: it is another cache's.
    fn prefetch_operation(&self, py: Python<'_>, ticket: Given<'_, '_>) -> PyResult<Option<u64>> {
        let ticket = PrefetchTicket::read(ticket, self.shared.mark)?;
        self.shared.view(py, |machine| machine.cache().prefetch_ordinal(ticket).map(|k| k.0))
    }

    /// Drops what may go from the device until at least `num_tokens` are freed, or nothing unlocked is left. What is on host too
    /// stays there. It never waits: under write-back what is on host goes first, then the rest in its turn.
    ///
    /// Raises:
    ///     InvalidInputError: `num_tokens` is negative.
    ///     PolicyError: as for `PrefixCache.evict`.
    fn evict(&self, py: Python<'_>, num_tokens: Given<'_, '_>) -> PyResult<EvictResult> {
        let num_tokens = scalars::NUM_TOKENS.read(num_tokens)?;
        let mut slots = Vec::new();
        let size = |machine: &Machine| num_tokens.min(machine.cache().sizes().device.evictable);
        let evicted = self.shared.run_sized(py, size, |machine| machine.cache_mut().evict(num_tokens, &mut slots))?;
        Ok(EvictResult::new(py, evicted, slots))
    }

    /// Drops leaves that are on host alone until at least `pages` host pages are freed; gives how many were.
    ///
    /// Raises:
    ///     InvalidInputError: `pages` is negative or above 2**32 - 1.
    fn evict_host(&self, py: Python<'_>, pages: Given<'_, '_>) -> PyResult<u32> {
        let pages = scalars::PAGES.read_u32(pages)?;
        let size = |machine: &Machine| u64::from(pages).min(machine.cache().sizes().host_only);
        self.shared.run_sized(py, size, |machine| Ok(machine.cache_mut().evict_host(pages)))
    }

    /// Drops everything in a namespace from both tiers, and what prefetches would bring there.
    ///
    /// Args:
    ///     namespace: (extra key, salt). The default namespace has to be spelt out: (None, None).
    ///
    /// Returns:
    ///     An int64 array of all freed device slots, the caller's from now on.
    ///
    /// Raises:
    ///     HeldError: requests or operations hold some of it, in either tier. Nothing is dropped.
    ///     InputTypeError: `namespace` is no such pair.
    fn remove_namespace<'py>(&self, py: Python<'py>, namespace: Given<'_, 'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let namespace = namespace::read_required(namespace)?;
        let mut slots = Vec::new();
        let size = |machine: &Machine| machine.tree().namespace_size(&namespace);
        self.shared.run_sized(py, size, |machine| machine.cache_mut().remove_namespace(&namespace, &mut slots))?;
        Ok(arrays::owned(py, slots))
    }

    /// Drops everything from both tiers, held or not, and every wish. Receipts and handles die; clock, operations and digests
    /// go on.
    ///
    /// Returns:
    ///     An int64 array of the device slots that are free now. Those that a copy under way may touch come later, as
    ///     `FreeSlots`, once all operations that are open now have ended: the caller must not reset its slot pool.
    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let mut slots = Vec::new();
        let work = |machine: &mut Machine| {
            machine.coming = 0;
            Ok(machine.cache_mut().reset(&mut slots))
        };
        self.shared.run_sized(py, whole_tree, work)?;
        Ok(arrays::owned(py, slots))
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

    /// The rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// Operations that may be open at a time.
    #[getter]
    fn window(&self) -> u32 {
        self.window
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Self { rank, page_size, policy, .. } = self;
        let bigram = if self.bigram { "True" } else { "False" };
        // A representation never raises, not even in a forked child or in a key function.
        let state = self.shared.view(py, |machine| (machine.cache().sizes(), machine.tree().num_nodes())).map_or_else(
            |_| "not usable here".to_owned(),
            |(sizes, nodes)| {
                format!("total_size={}, host_total={}, num_nodes={nodes}", sizes.device.total, sizes.host_total)
            },
        );
        format!("<TieredCache rank={rank}, page_size={page_size}, policy='{policy}', bigram={bigram}: {state}>")
    }

    /// Copies and pickles come here, all of them.
    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        Err(errors::not_copyable(py, "TieredCache"))
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

impl Drop for TieredCache {
    fn drop(&mut self) {
        // A walk may keep the core, but calls no key function: it must not keep that one out of the collector's sight.
        self.__clear__();
    }
}

impl TieredCache {
    /// Reads a `cache` argument.
    pub(crate) fn read<'a, 'py>(given: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, Self>> {
        given.cast::<Self>().map_err(|_| {
            let message = format!("cache is {}, expected a TieredCache\nhint: make one for each rank", describe(given));
            errors::input_type(given.py(), message)
        })
    }
}
