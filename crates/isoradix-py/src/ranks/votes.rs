//! A rank's side of the votes.

use std::sync::Arc;
use std::sync::OnceLock;

use isoradix_core::protocol::{self, DivergenceMode, Pace, Pacing};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::board::{self, Board, SharedBoard};
use super::mode;
use super::refusals;
use crate::errors::{self, Class, describe};
use crate::guard::Guarded;
use crate::ints::{self, Words};
use crate::scalars::{self, Scalar};

pub(super) type Core = protocol::VoteMachine;
type Given<'a, 'py> = &'a Bound<'py, PyAny>;
type Write = fn(&mut Core, &mut protocol::Board, &mut [i64]) -> Result<(), protocol::ProtocolError>;

const PACING: Scalar = scalars::up_to("pacing", u32::MAX as u64, "pass milliseconds: (busy, idle, paused)");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reduced>()?;
    module.add_class::<VoteMachine>()
}

/// One vote's result, checked, and closed: it is for the leader's `Rank.lead`, and nobody else reads it.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Reduced(protocol::Reduced);

#[pymethods]
impl Reduced {
    /// Ordinal of the vote.
    #[getter]
    fn vote(&self) -> u64 {
        self.0.vote()
    }

    fn __repr__(&self) -> String {
        format!("<Reduced vote={}>", self.0.vote())
    }
}

impl Reduced {
    /// Reads a `newest` argument.
    pub(super) fn read(given: Option<Given<'_, '_>>) -> PyResult<Option<protocol::Reduced>> {
        let Some(given) = given else { return Ok(None) };
        given.cast::<Self>().map(|reduced| Some(reduced.get().0.clone())).map_err(|_| {
            let message = format!(
                "newest is {}, expected a Reduced\n\
                 hint: pass what VoteMachine.complete() gave last, None before the first",
                describe(given)
            );
            errors::input_type(given.py(), message)
        })
    }
}

/// The votes of one rank, for its vote thread: `fill`, reduce by MIN over all ranks, `complete`, and again after `pace()`.
///
/// What a ballot asks about and when it is due follow from the vector before alone, so all ranks vote equally often and about the
/// same things, whatever their schedulers do meanwhile.
///
/// Args:
///     rank: this rank.
///     epoch: the group's incarnation; a new one after every rebuild, with new machines.
///     window: operations that may be open at a time, 1 to 4096; that of the board.
///     pacing: milliseconds between votes (while operations are under way, while there are none, while some rank is paused),
///         each 0 to 2**32 - 1.
///     mode: what unequal digests do, equal on all ranks: "enforce" raises DivergenceError, "observe" keeps the first in `parted`,
///         "off" compares none.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value has the wrong type.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct VoteMachine {
    pub(super) inner: Guarded<Core>,
    id: u64,
    rank: u32,
    window: u32,
    words: usize,
    /// The board of its first ballot, by its id: that of all others too.
    board: OnceLock<u64>,
}

#[pymethods]
impl VoteMachine {
    #[new]
    #[pyo3(
        signature = (rank, epoch, window = None, pacing = None, *, mode = None),
        text_signature = "(rank, epoch, window=64, pacing=(0, 2, 50), *, mode='enforce')"
    )]
    fn new(
        py: Python<'_>,
        rank: Given<'_, '_>,
        epoch: Given<'_, '_>,
        window: Option<Given<'_, '_>>,
        pacing: Option<Given<'_, '_>>,
        mode: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let (rank, epoch) = (scalars::RANK.read_u32(rank)?, scalars::EPOCH.read(epoch)?);
        let window = window.map_or(Ok(64), |window| scalars::WINDOW.read_u32(window))?;
        let pacing = pacing.map_or(Ok(Pacing::default()), read_pacing)?;
        let mode = mode.map_or(Ok(DivergenceMode::default()), mode::read)?;
        let core = Core::new(rank, epoch, window, pacing).map_err(|error| refusals::from_protocol(py, &error))?;
        let core = core.with_mode(mode);
        let (id, words, board) = (board::next_id(), core.words(), OnceLock::new());
        Ok(Self { inner: Guarded::new("VoteMachine", core), id, rank, window, words, board })
    }

    /// Writes this rank's next ballot to `out`, to be reduced in place by MIN with those of all ranks.
    ///
    /// Args:
    ///     board: the rank's board; always the same one.
    ///     out: `words` items of int64, contiguous and writable: a numpy array, a CPU torch tensor, or anything with such a buffer.
    ///         Nothing is allocated and nothing copied, but that a tensor shows itself as an array each time: pass
    ///         `tensor.numpy()`, which is the same memory, to save that.
    ///
    /// Raises:
    ///     ProtocolError: the vote before is not completed, or all ranks have left.
    ///     DivergenceError: a number that only grows went back on this rank. `out` holds the ballot all the same, and the vote is in
    ///         flight: the other ranks wait for it.
    ///     InvalidInputError: `out` has another length, or the board is not this machine's.
    ///     InputTypeError: `out` is of another type or layout.
    fn fill(&self, py: Python<'_>, board: Given<'_, '_>, out: Given<'_, '_>) -> PyResult<()> {
        self.write(py, board, out, Core::fill)
    }

    /// Writes the ballot that is in flight anew, with what the board knows now: the same vote, every number that only grows as
    /// it was or larger. It replaces the one that was kept.
    ///
    /// For a rank that has not sent it yet: what was sent is what the others reduce, and must be what is kept.
    ///
    /// Args:
    ///     board: the rank's board.
    ///     out: as for `fill`, usually the same buffer.
    ///
    /// Raises:
    ///     ProtocolError: no vote is in flight.
    ///     DivergenceError, InvalidInputError, InputTypeError: as for `fill`.
    fn refill(&self, py: Python<'_>, board: Given<'_, '_>, out: Given<'_, '_>) -> PyResult<()> {
        self.write(py, board, out, Core::refill)
    }

    /// Checks the vector that the ranks have reduced.
    ///
    /// Args:
    ///     board: the rank's board.
    ///     reduced: `words` items of int64 as for `fill`, usually the same buffer; read-only ones are accepted too.
    ///
    /// Returns:
    ///     The vote's result, for the leader's `Rank.lead`.
    ///
    /// Raises:
    ///     ProtocolError: no vote is in flight.
    ///     DivergenceError: the vector shows that ranks have parted. If its `kind` is "digest", the digest rings of all ranks tell
    ///         who: see `blame`. The vote stays in flight.
    ///     InvalidInputError: the board is not this machine's.
    ///     InputTypeError: `reduced` is of another type or layout.
    fn complete(&self, py: Python<'_>, board: Given<'_, '_>, reduced: Given<'_, '_>) -> PyResult<Reduced> {
        let board = self.board(py, board)?;
        let words = Words::prepare(reduced, &ints::REDUCED)?;
        let reduced = words.read(py, &ints::REDUCED)?;
        let other = (&board.inner, || board.reentered());
        let done = self.inner.enter_with(py, || false, other, |_| 0, |votes, board| votes.complete(board, reduced))?;
        done.map(Reduced).map_err(|error| refusals::from_protocol(py, &error))
    }

    /// Milliseconds from the last vote to the next; None if there is no other: every rank has applied the stop frame.
    fn pace(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.inner.enter(
            py,
            || false,
            |votes| match votes.pace() {
                Pace::After { ms } => Some(ms),
                Pace::Leave => None,
            },
        )
    }

    /// Whether the next vote would say anything of which the last one did not say the end: operations are under way, or this
    /// rank pauses, stops, or could back another number of pages.
    ///
    /// For a rank that is alone in its domain, which may leave out a vote without news: several ranks vote equally often.
    ///
    /// Args:
    ///     board: the rank's board.
    ///
    /// Raises:
    ///     InvalidInputError: the board is not this machine's.
    fn has_news(&self, py: Python<'_>, board: Given<'_, '_>) -> PyResult<bool> {
        let board = self.board(py, board)?;
        let other = (&board.inner, || board.reentered());
        self.inner.enter_with(py, || false, other, |_| 0, |votes, board| votes.has_news(board))
    }

    /// Ordinal of the vote that is filled next, or in flight.
    #[getter]
    fn vote(&self, py: Python<'_>) -> PyResult<u64> {
        self.inner.enter(py, || false, |votes| votes.vote())
    }

    /// Whether a ballot is filled and its vote not completed.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.enter(py, || false, |votes| votes.is_in_flight())
    }

    /// Whether some rank is paused, as the vote completed last says.
    #[getter]
    fn paused(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.enter(py, || false, |votes| votes.is_paused())
    }

    /// The first vote that showed unequal digests, as a DivergenceError, where `mode` observes it; else None. All ranks see it in
    /// the same vector.
    #[getter]
    fn parted<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBaseException>>> {
        let parted = self.inner.enter(py, || false, |votes| votes.parted().cloned())?;
        Ok(parted.map(|found| refusals::from_divergence(py, &found).into_value(py).into_bound(py)))
    }

    /// Votes in which this rank had no digest to compare, since its scheduler was thousands of steps ahead. For a report.
    #[getter]
    fn uncompared(&self, py: Python<'_>) -> PyResult<u64> {
        self.inner.enter(py, || false, |votes| votes.uncompared())
    }

    /// Items of a ballot, each an int64.
    #[getter]
    fn words(&self) -> usize {
        self.words
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

    fn __repr__(&self) -> String {
        format!("<VoteMachine rank={}, window={}>", self.rank, self.window)
    }

    /// Copies and pickles come here, all of them.
    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        Err(errors::not_copyable(py, "VoteMachine"))
    }
}

impl VoteMachine {
    /// Reads a `votes` argument.
    pub(super) fn read<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a Self> {
        given.cast::<Self>().map(Bound::get).map_err(|_| {
            let message = format!("votes is {}, expected a VoteMachine\nhint: pass this rank's own", describe(given));
            errors::input_type(given.py(), message)
        })
    }

    /// Has the core write a ballot.
    fn write(&self, py: Python<'_>, board: Given<'_, '_>, out: Given<'_, '_>, write: Write) -> PyResult<()> {
        let board = self.board(py, board)?;
        let mut words = Words::prepare(out, &ints::OUT)?;
        let out = words.write(py, &ints::OUT)?;
        self.claim(py, board)?;
        let other = (&board.inner, || board.reentered());
        let done = self.inner.enter_with(py, || false, other, |_| 0, |votes, board| write(votes, board, out))?;
        done.map_err(|error| refusals::from_protocol(py, &error))
    }

    /// The board that was given, if it can be this machine's.
    fn board<'a>(&self, py: Python<'_>, given: &'a Bound<'_, PyAny>) -> PyResult<&'a Arc<SharedBoard>> {
        let board = Board::read(given)?;
        if (board.rank, board.window) == (self.rank, self.window) && self.board.get().is_none_or(|id| *id == board.id) {
            return Ok(board);
        }
        Err(self.refuse(py, board))
    }

    /// The first ballot ties machine and board to each other.
    fn claim(&self, py: Python<'_>, board: &SharedBoard) -> PyResult<()> {
        if *board.voted.get_or_init(|| self.id) == self.id && *self.board.get_or_init(|| board.id) == board.id {
            return Ok(());
        }
        Err(self.refuse(py, board))
    }

    #[cold]
    fn refuse(&self, py: Python<'_>, board: &SharedBoard) -> PyErr {
        let Self { rank, window, .. } = self;
        let message = format!(
            "a board of rank {} and window {} is not that of this VoteMachine, of rank {rank} and window {window}\n\
             hint: a rank has one board and one vote machine, with one window, and uses them together",
            board.rank, board.window
        );
        errors::new(py, Class::InvalidInput, message)
    }
}

fn read_pacing(given: Given<'_, '_>) -> PyResult<Pacing> {
    let three = given.cast::<PyTuple>().ok().filter(|three| three.len() == 3).ok_or_else(|| {
        let message = format!(
            "pacing is {}, expected three ints\nhint: pass milliseconds: (busy, idle, paused)",
            describe(given)
        );
        errors::input_type(given.py(), message)
    })?;
    let ms = |at| PACING.read_u32(&three.get_item(at)?);
    Ok(Pacing { busy_ms: ms(0)?, idle_ms: ms(1)?, paused_ms: ms(2)? })
}
