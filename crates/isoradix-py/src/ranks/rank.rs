//! One rank: its cache, and its seat where steps are agreed.

use std::sync::Arc;

use isoradix_core::operation::Kind;
use isoradix_core::protocol::{DivergenceMode, Member, RunAhead};
use isoradix_core::{DeviceRoom, Ordinal, PerRank, Presence, Rank as Core, SLOT_LIMIT, StepError};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3::{PyTraverseError, PyVisit};

use super::board::{self, Board, Core as BoardCore, SharedBoard};
use super::control::Control;
use super::effects;
use super::frame::{self, FrameInfo};
use super::mode;
use super::refusals;
use super::run_ahead::{DEPTH, EDGE, EDGES, FRAMES};
use super::votes::Reduced;
use crate::errors::{self, Class};
use crate::scalars::{self, Scalar};
use crate::shared::Shared;
use crate::tiered::{Machine, TieredCache};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const DOMAIN: Scalar = scalars::up_to("domain", u32::MAX as u64, "ranks of one domain hold isomorphic state");
const DEVICE_FREE: Scalar =
    scalars::up_to("device_free", SLOT_LIMIT, "pass the free slots of the device's pool: pool.available");
const PROMISED: Scalar = scalars::up_to("promised", SLOT_LIMIT, "pass what admitted requests have still to be given");
const FIRST_STEP: Scalar = scalars::within(
    "first_step",
    1,
    i64::MAX as u64,
    "pass the first step that is applied, equal on all ranks; the clock of a new cache is at 0",
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Rank>()
}

/// One rank of a consensus domain: its cache, and its seat as leader or follower. Made by `Rank.leader` or `Rank.follower`.
///
/// Once a step, on the scheduler's thread: `lead` or `follow`; the verbs of `cache`; `close_step`; `take_effects`, for this rank's
/// engines, which report to the board.
///
/// DivergenceError, HostPoolError and OperationError are fatal: the rank must not go on. Whatever else is raised has changed nothing.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Rank {
    cache: Py<TieredCache>,
    shared: Arc<Shared<Machine>>,
    board: Arc<SharedBoard>,
    member: Member,
    leads: bool,
}

/// How long it takes to apply a frame, at most: prefetches that it ends insert their tokens. Few frames end any, so only a long wait
/// for this one counts.
fn apply_size(machine: &Machine) -> u64 {
    const RARELY: u64 = 16;
    let prefetches = machine.cache().operations().iter().filter(|operation| operation.kind() == Kind::Prefetch);
    prefetches.map(isoradix_core::operation::Operation::tokens).sum::<u64>() / RARELY
}

impl Rank {
    /// Gives a cache and a board to a rank that `make` makes.
    fn seated(
        (cache, board): (Given<'_, '_>, Given<'_, '_>),
        Seat { domain, epoch, first_step, mode }: Seat<'_, '_>,
        leads: bool,
        make: impl FnOnce(Member, u64, isoradix_core::TieredCache) -> Core,
    ) -> PyResult<Self> {
        let py = cache.py();
        let (cache, board) = (TieredCache::read(cache)?, Board::read(board)?);
        let TieredCache { rank, window, shared, .. } = cache.get();
        let domain = domain.map_or(Ok(0), |domain| DOMAIN.read_u32(domain))?;
        let member = Member { domain, epoch: scalars::EPOCH.read(epoch)?, rank: *rank };
        let first_step = first_step.map_or(Ok(1), |step| FIRST_STEP.read(step))?;
        let mode = mode.map_or(Ok(DivergenceMode::default()), mode::read)?;
        let refuse = |message: String| Err(errors::new(py, Class::InvalidInput, message));
        if (*rank, *window) != (board.rank, board.window) {
            return refuse(format!(
                "a cache of rank {rank} and window {window} does not go with a board of rank {} and window {}\n\
                 hint: a rank has one cache and one board, with one window",
                board.rank, board.window
            ));
        }
        let id = board::next_id();
        let taken = shared.enter(py, |machine| {
            if machine.rank_mut().is_some() {
                return Some("TieredCache");
            }
            if *board.ranked.get_or_init(|| id) != id {
                return Some("Board");
            }
            machine.give_to(|cache| make(member, first_step, cache).with_mode(mode));
            None
        })?;
        if let Some(what) = taken {
            return refuse(format!(
                "this {what} has a rank already\nhint: make a cache, a board and a rank together, once"
            ));
        }
        let (shared, board) = (Arc::clone(shared), Arc::clone(board));
        Ok(Self { cache: cache.clone().unbind(), shared, board, member, leads })
    }

    /// Works on the rank together with its board.
    fn step<R: Send>(
        &self,
        py: Python<'_>,
        size: impl FnOnce(&Machine) -> u64,
        work: impl FnOnce(&mut Machine, &mut BoardCore) -> Result<R, StepError> + Send,
    ) -> PyResult<R> {
        let calls_python = self.shared.key_function.is_some();
        let (shared, board) = (&self.shared, &*self.board);
        let work = |machine: &mut Machine, core: &mut BoardCore| {
            if calls_python { board.while_busy(|| work(machine, core)) } else { work(machine, core) }
        };
        let done = shared.enter_with(py, (&board.inner, || board.reentered()), size, work)?;
        done.map_err(|error| refusals::from_step(py, shared, &error))
    }
}

/// What leader and follower are both made with.
struct Seat<'a, 'py> {
    domain: Option<Given<'a, 'py>>,
    epoch: Given<'a, 'py>,
    first_step: Option<Given<'a, 'py>>,
    mode: Option<Given<'a, 'py>>,
}

/// The rank of a machine that was given one.
fn ranked(machine: &mut Machine) -> &mut Core {
    machine.rank_mut().expect("a Rank gave its cache a rank")
}

#[pymethods]
impl Rank {
    /// The rank that stamps the frames: stage 0, first rank.
    ///
    /// Args:
    ///     cache: the rank's TieredCache, which has no rank yet.
    ///     board: its board.
    ///     epoch: the group's incarnation; that of the vote machine.
    ///     domain: the consensus domain, 0 to 2**32 - 1.
    ///     first_step: the first step that is applied, equal on all ranks.
    ///     edges: ranks to which this one sends its frames.
    ///     depth: pipeline stages; frames in flight on an edge are bounded by one more.
    ///     mode: what a digest other than the leader's does, equal on all ranks: "enforce" raises DivergenceError, "observe" keeps the
    ///         first in `parted` and goes on, "off" compares none.
    ///
    /// Raises:
    ///     InvalidInputError: a value is out of its range; cache and board are not of one rank and window, or have a rank already.
    ///     InputTypeError: a value has the wrong type.
    #[staticmethod]
    #[pyo3(
        signature = (
            cache, board, *, epoch, domain = None, first_step = None, edges = None, depth = None, mode = None
        ),
        text_signature = "(cache, board, *, epoch, domain=0, first_step=1, edges=0, depth=1, mode='enforce')"
    )]
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn leader(
        cache: Given<'_, '_>,
        board: Given<'_, '_>,
        epoch: Given<'_, '_>,
        domain: Option<Given<'_, '_>>,
        first_step: Option<Given<'_, '_>>,
        edges: Option<Given<'_, '_>>,
        depth: Option<Given<'_, '_>>,
        mode: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let edges = edges.map_or(Ok(0), |edges| EDGES.read_u32(edges))?;
        let depth = depth.map_or(Ok(1), |depth| DEPTH.read_u32(depth))?;
        Self::seated((cache, board), Seat { domain, epoch, first_step, mode }, true, |member, first_step, cache| {
            Core::leader(member, first_step, RunAhead::new(edges, depth), cache)
        })
    }

    /// Any other rank. Args and errors as for `leader`.
    #[staticmethod]
    #[pyo3(
        signature = (cache, board, *, epoch, domain = None, first_step = None, mode = None),
        text_signature = "(cache, board, *, epoch, domain=0, first_step=1, mode='enforce')"
    )]
    fn follower(
        cache: Given<'_, '_>,
        board: Given<'_, '_>,
        epoch: Given<'_, '_>,
        domain: Option<Given<'_, '_>>,
        first_step: Option<Given<'_, '_>>,
        mode: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        Self::seated((cache, board), Seat { domain, epoch, first_step, mode }, false, Core::follower)
    }

    /// A rank alone, which does again what another one, leader or follower, has done: it is to `follow` the frames of that run, and
    /// believes what they say of votes. Args and errors as for `leader`.
    #[staticmethod]
    #[pyo3(
        signature = (cache, board, *, epoch, domain = None, first_step = None, mode = None),
        text_signature = "(cache, board, *, epoch, domain=0, first_step=1, mode='enforce')"
    )]
    fn of_the_past(
        cache: Given<'_, '_>,
        board: Given<'_, '_>,
        epoch: Given<'_, '_>,
        domain: Option<Given<'_, '_>>,
        first_step: Option<Given<'_, '_>>,
        mode: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        Self::seated((cache, board), Seat { domain, epoch, first_step, mode }, false, Core::of_the_past)
    }

    /// The leader enters its next step: stamps a frame, applies it, and gives its bytes to be sent to every receiver.
    ///
    /// Prefetches past their deadline are timed out beside what `controls` decide.
    ///
    /// Args:
    ///     now_ms: this rank's monotonic clock, in milliseconds.
    ///     newest: the newest vote that its vote thread has completed; None before the first. It is framed once.
    ///     controls: at most 1,024 decisions, applied in this order.
    ///
    /// Raises:
    ///     BackpressureError: a receiver is too far behind; `edge` says which.
    ///     ProtocolError: this rank follows, or has stamped the stop frame.
    ///     InvalidInputError: a value is out of its range, or there are too many controls.
    ///     InputTypeError: an argument has the wrong type.
    #[pyo3(
        signature = (now_ms, newest = None, controls = None),
        text_signature = "($self, now_ms, newest=None, controls=())"
    )]
    fn lead<'py>(
        &self,
        py: Python<'py>,
        now_ms: Given<'_, 'py>,
        newest: Option<Given<'_, 'py>>,
        controls: Option<Given<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let now = scalars::NOW_MS.read(now_ms)?;
        let newest = Reduced::read(newest)?;
        let controls = controls.map_or(Ok(Vec::new()), Control::read_all)?;
        let work = |machine: &mut Machine, board: &mut BoardCore| {
            ranked(machine).lead(board, newest.as_ref(), PerRank::observe(now), &controls)
        };
        let frame = self.step(py, apply_size, work)?;
        Ok(PyBytes::new(py, &frame.to_bytes()))
    }

    /// A follower enters its next step: checks the leader's frame against its own state, and applies it.
    ///
    /// Args:
    ///     frame: the bytes that `lead` gave, or any contiguous buffer with them.
    ///
    /// Returns:
    ///     What can be seen of the frame: its step, and the leader's decisions.
    ///
    /// Raises:
    ///     DivergenceError: this rank and the leader have parted. Nothing was applied.
    ///     ProtocolError: this rank leads, or the bytes are no frame.
    ///     InputTypeError: `frame` is no bytes.
    fn follow(&self, py: Python<'_>, frame: Given<'_, '_>) -> PyResult<FrameInfo> {
        let frame = frame::read(frame)?;
        let info = FrameInfo::new(&frame);
        let work = |machine: &mut Machine, board: &mut BoardCore| ranked(machine).follow(board, frame);
        self.step(py, apply_size, work)?;
        Ok(info)
    }

    /// Turns the wishes of the step into operations. Once a step, on every rank at the same point of its scheduler: before the
    /// forward pass that needs what was loaded.
    ///
    /// Args:
    ///     device_free: free slots of the device's pool.
    ///     promised: tokens for which the scheduler has promised room that they have not taken yet. Backups lock no more than leaves
    ///         so many free or evictable; the others wait.
    ///
    /// Raises:
    ///     ProtocolError: no step is open.
    ///     InvalidInputError: `device_free` or `promised` is negative.
    #[pyo3(signature = (device_free, promised=None))]
    fn close_step(&self, py: Python<'_>, device_free: Given<'_, '_>, promised: Option<Given<'_, '_>>) -> PyResult<()> {
        let free = DEVICE_FREE.read(device_free)?;
        let promised = promised.map_or(Ok(0), |promised| PROMISED.read(promised))?;
        let device = DeviceRoom { free, promised };
        let work = |machine: &mut Machine, board: &mut BoardCore| {
            ranked(machine).close_step(board, device)?;
            machine.coming = 0;
            Ok(())
        };
        self.step(py, |machine| machine.coming, work)
    }

    /// Turns what the step has wished to load back so far into an operation, ahead of its close. On every rank at the same point of
    /// its scheduler: for one that still allots slots to the forward pass that waits for it. Take the effects after it.
    ///
    /// Raises:
    ///     ProtocolError: no step is open.
    fn begin_loads(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, |_| 0, |machine: &mut Machine, board: &mut BoardCore| ranked(machine).begin_loads(board))
    }

    /// External storage has answered a `Query` on this rank: it has so many tokens (pairs, in bigram mode) of the run, as a leading
    /// part. Pages are reserved and the copy is started at once: take the effects again.
    ///
    /// To be called on the scheduler's thread. A late answer is no matter.
    ///
    /// Raises:
    ///     InvalidInputError: a value is negative.
    fn found(&self, py: Python<'_>, operation: Given<'_, '_>, tokens: Given<'_, '_>) -> PyResult<()> {
        let (k, units) = (Ordinal(scalars::OPERATION.read(operation)?), scalars::TOKENS.read(tokens)?);
        let work =
            |machine: &mut Machine, board: &mut BoardCore| ranked(machine).found(board, k, PerRank::observe(units));
        self.step(py, |_| 0, work)
    }

    /// As `found`, of a cache with components: the leading pages that storage has.
    ///
    /// Args:
    ///     operation: the prefetch.
    ///     parts: a byte for each of the pages, with a bit for each component that is there, by its place in the cache's
    ///         `components`: bytes, or a uint8 array. All ranks then search for the deepest end that every one of them
    ///         has, and the copy begins once it is agreed.
    ///
    /// Raises:
    ///     InvalidInputError, InputTypeError: a value is negative, or has the wrong type.
    fn found_presence(&self, py: Python<'_>, operation: Given<'_, '_>, parts: Given<'_, '_>) -> PyResult<()> {
        let k = Ordinal(scalars::OPERATION.read(operation)?);
        let here = crate::bytes::read(parts, "parts", |parts| Presence::observe(parts.to_vec()))?;
        let work = |machine: &mut Machine, board: &mut BoardCore| ranked(machine).found_presence(board, k, &here);
        self.step(py, |_| 0, work)
    }

    /// What this rank's engines do now, in order. To be taken once a step, after it is closed, and after `found`.
    fn take_effects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let effects = self.shared.enter(py, |machine| ranked(machine).take_effects())?;
        effects::to_python(py, effects)
    }

    /// This rank loses the memory behind up to so many free host pages. How many it lost is voted, and seen by nobody here.
    ///
    /// Raises:
    ///     InvalidInputError: `pages` is negative or above 2**32 - 1.
    fn withdraw(&self, py: Python<'_>, pages: Given<'_, '_>) -> PyResult<()> {
        let pages = scalars::PAGES.read_u32(pages)?;
        let lost = self.shared.enter(py, |machine| ranked(machine).withdraw(PerRank::observe(pages)))?;
        lost.map(drop).map_err(|error| refusals::from_step(py, &self.shared, &error))
    }

    /// This rank has memory again behind up to so many host pages that it had lost.
    ///
    /// Raises:
    ///     InvalidInputError: `pages` is negative or above 2**32 - 1.
    fn restore(&self, py: Python<'_>, pages: Given<'_, '_>) -> PyResult<()> {
        let pages = scalars::PAGES.read_u32(pages)?;
        self.shared.enter(py, |machine| drop(ranked(machine).restore(PerRank::observe(pages))))
    }

    /// So many of the leader's frames arrived over an edge: their sends completed.
    ///
    /// Raises:
    ///     InvalidInputError: there is no such edge, or fewer frames are in flight on it.
    ///     ProtocolError: this rank follows.
    #[pyo3(signature = (edge, frames = None), text_signature = "($self, edge, frames=1)")]
    fn delivered(&self, py: Python<'_>, edge: Given<'_, '_>, frames: Option<Given<'_, '_>>) -> PyResult<()> {
        let edge = EDGE.read_u32(edge)?;
        let frames = frames.map_or(Ok(1), |frames| FRAMES.read_u32(frames))?;
        let done =
            self.shared.enter(py, |machine| ranked(machine).run_ahead().map(|ahead| ahead.delivered(edge, frames)))?;
        let done = done.ok_or_else(|| {
            let message = "delivered out of order: this rank follows\n\
                           hint: a follower that relays frames counts them in a RunAhead of its own";
            errors::new(py, Class::Protocol, message)
        })?;
        done.map_err(|error| refusals::from_protocol(py, &error))
    }

    /// The edge that has no room for the leader's next frame: `lead` would raise BackpressureError. None if all have, or if this
    /// rank follows.
    #[getter]
    fn full_edge(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.shared.enter(py, |machine| {
            let pressure = ranked(machine).run_ahead().and_then(|ahead| ahead.pressure());
            pressure.map(|pressure| pressure.edge)
        })
    }

    /// The decision digest at this moment.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.enter(py, |machine| ranked(machine).digest())
    }

    /// The first difference from the leader's digest, as a DivergenceError, where `mode` observes it; else None.
    #[getter]
    fn parted<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBaseException>>> {
        let parted = self.shared.enter(py, |machine| ranked(machine).parted().cloned())?;
        Ok(parted.map(|found| refusals::from_divergence(py, &found).into_value(py).into_bound(py)))
    }

    /// The cache, for its verbs.
    #[getter]
    fn cache(&self, py: Python<'_>) -> Py<TieredCache> {
        self.cache.clone_ref(py)
    }

    /// The rank in its domain.
    #[getter]
    fn rank(&self) -> u32 {
        self.member.rank
    }

    /// The consensus domain.
    #[getter]
    fn domain(&self) -> u32 {
        self.member.domain
    }

    /// The group's incarnation.
    #[getter]
    fn epoch(&self) -> u64 {
        self.member.epoch
    }

    /// Whether it stamps the frames.
    #[getter]
    fn leads(&self) -> bool {
        self.leads
    }

    fn __repr__(&self) -> String {
        let Self { member: Member { domain, epoch, rank }, leads, .. } = self;
        let seat = if *leads { "leader" } else { "follower" };
        format!("<Rank {rank} of domain {domain}, epoch {epoch}: {seat}>")
    }

    /// Copies and pickles come here, all of them.
    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        Err(errors::not_copyable(py, "Rank"))
    }

    // The ring of a key function that closes over its rank is broken by the cache.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }
}
