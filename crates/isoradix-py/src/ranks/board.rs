//! Where the threads of a rank meet.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use isoradix_core::operation::Kind;
use isoradix_core::protocol::{self, DigestRing, Posted, ProtocolError, SlotField, StepDigest};
use isoradix_core::{Ordinal, PerRank};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::refusals;
use crate::bytes;
use crate::errors::{self, Class, describe};
use crate::guard::Guarded;
use crate::policy;
use crate::scalars;

pub(super) type Core = protocol::Board;
type Given<'a, 'py> = &'a Bound<'py, PyAny>;

/// Steps whose digest is compared.
const STEP: scalars::Scalar = scalars::any("step", "pass a step that this rank has entered, such as cache.clock[0]");

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A number that tells boards and vote machines of this process apart.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Board>()?;
    module.add_function(wrap_pyfunction!(blame, module)?)
}

/// A board as its Python object and its rank share it.
pub(super) struct SharedBoard {
    pub(super) inner: Guarded<Core>,
    pub(super) id: u64,
    pub(super) rank: u32,
    pub(super) window: u32,
    /// The rank and the vote machine that use it, each by its id.
    pub(super) ranked: OnceLock<u64>,
    pub(super) voted: OnceLock<u64>,
    /// The thread on which a key function may run while its rank has this board, or 0.
    busy: AtomicUsize,
}

impl SharedBoard {
    /// Whether this very call comes from a key function inside a call that has the board.
    pub(super) fn reentered(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == policy::this_thread()
    }

    /// Runs `work`, which has the board and may call a key function.
    pub(super) fn while_busy<R>(&self, work: impl FnOnce() -> R) -> R {
        self.busy.store(policy::this_thread(), Ordering::Relaxed);
        let done = work();
        self.busy.store(0, Ordering::Relaxed);
        done
    }

    fn enter<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> R) -> PyResult<R> {
        self.inner.enter(py, || self.reentered(), work)
    }
}

/// Where the threads of one rank meet: I/O threads post what they see, the scheduler's `Rank` what it has issued and applied, and the
/// vote thread fills its ballots from it. Nobody else reads what is posted, and nothing that is posted ever goes back.
///
/// Any thread may call, and none waits for another with the GIL held.
///
/// Args:
///     rank: this rank.
///     window: operations that may be open at a time, 1 to 4096; that of the cache and of the vote machine.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is not an int.
///
/// The posts raise ProtocolError for an operation that is not issued on this rank. They give True if the number will be voted, and
/// False if the operation is over here and nobody will ask.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Board {
    pub(super) shared: Arc<SharedBoard>,
}

impl Board {
    fn run<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> Result<R, ProtocolError>) -> PyResult<R> {
        self.shared.enter(py, work)?.map_err(|error| refusals::from_protocol(py, &error))
    }

    fn post(
        &self,
        py: Python<'_>,
        operation: Given<'_, '_>,
        post: impl FnOnce(&mut Core, Ordinal) -> Result<Posted, ProtocolError>,
    ) -> PyResult<bool> {
        let operation = Ordinal(scalars::OPERATION.read(operation)?);
        self.run(py, |board| post(board, operation)).map(|posted| posted == Posted::Taken)
    }

    /// Reads a `board` argument.
    pub(super) fn read<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a Arc<SharedBoard>> {
        given.cast::<Self>().map(|board| &board.get().shared).map_err(|_| {
            let message = format!("board is {}, expected a Board\nhint: make one for each rank", describe(given));
            errors::input_type(given.py(), message)
        })
    }
}

#[pymethods]
impl Board {
    #[new]
    #[pyo3(signature = (rank, window = None), text_signature = "(rank, window=64)")]
    fn new(py: Python<'_>, rank: Given<'_, '_>, window: Option<Given<'_, '_>>) -> PyResult<Self> {
        let rank = scalars::RANK.read_u32(rank)?;
        let window = window.map_or(Ok(64), |window| scalars::WINDOW.read_u32(window))?;
        let core = Core::new(rank, window).map_err(|error| refusals::from_protocol(py, &error))?;
        Ok(Self {
            shared: Arc::new(SharedBoard {
                inner: Guarded::new("Board", core),
                id: next_id(),
                rank,
                window,
                ranked: OnceLock::new(),
                voted: OnceLock::new(),
                busy: AtomicUsize::new(0),
            }),
        })
    }

    /// Posts the tokens that storage has for a prefetch. The first post stands; `Rank.found` posts them too.
    fn post_hit(&self, py: Python<'_>, operation: Given<'_, '_>, tokens: Given<'_, '_>) -> PyResult<bool> {
        let tokens = scalars::TOKENS.read(tokens)?;
        self.post(py, operation, |board, k| board.post_hit(k, PerRank::observe(tokens)))
    }

    /// Posts the host pages reserved for an operation. The first post stands; a `Rank` posts them itself.
    fn post_pages(&self, py: Python<'_>, operation: Given<'_, '_>, pages: Given<'_, '_>) -> PyResult<bool> {
        let pages = scalars::PAGES.read_u32(pages)?;
        self.post(py, operation, |board, k| board.post_pages(k, PerRank::observe(pages)))
    }

    /// Posts how many tokens of an operation have arrived, from its start on. The largest post stands.
    fn post_progress(&self, py: Python<'_>, operation: Given<'_, '_>, tokens: Given<'_, '_>) -> PyResult<bool> {
        let tokens = scalars::TOKENS.read(tokens)?;
        self.post(py, operation, |board, k| board.post_progress(k, PerRank::observe(tokens)))
    }

    /// Posts how an operation ended here. The first post stands. Its copy may still touch slots or pages: see `finish`.
    fn post_ready(&self, py: Python<'_>, operation: Given<'_, '_>, succeeded: Given<'_, '_>) -> PyResult<bool> {
        let succeeded = scalars::boolean(succeeded, "succeeded")?;
        self.post(py, operation, |board, k| board.post_ready(k, PerRank::observe(succeeded)))
    }

    /// This rank has no stake in one number of an operation: it is no writer, or has no such pool.
    ///
    /// Args:
    ///     operation: its ordinal.
    ///     field: "hit", "pages", "progress" or "ready".
    fn abstain(&self, py: Python<'_>, operation: Given<'_, '_>, field: Given<'_, '_>) -> PyResult<bool> {
        let field = one_of(field, "field", &SlotField::ALL.map(|field| (field.as_str(), field)))?;
        self.post(py, operation, |board, k| board.abstain(k, field))
    }

    /// This rank never copies anything of a kind. To be called before the first step.
    ///
    /// Args:
    ///     kind: "backup", "load_back", "prefetch" or "store".
    ///
    /// Raises:
    ///     InvalidInputError: there is no such kind.
    fn abstain_finished(&self, py: Python<'_>, kind: Given<'_, '_>) -> PyResult<()> {
        let kind = one_of(kind, "kind", &Kind::ALL.map(|kind| (kind.as_str(), kind)))?;
        self.run(py, |board| board.abstain_finished(kind.fifo()))
    }

    /// This rank's copy of an operation is over, well or badly: `post_ready`, then `finish`, in one.
    ///
    /// Raises:
    ///     ProtocolError: the operation is not issued here, or has finished. Nothing is posted.
    fn ended(&self, py: Python<'_>, operation: Given<'_, '_>, succeeded: Given<'_, '_>) -> PyResult<()> {
        let operation = Ordinal(scalars::OPERATION.read(operation)?);
        let succeeded = scalars::boolean(succeeded, "succeeded")?;
        self.run(py, |board| board.ended(operation, PerRank::observe(succeeded)))
    }

    /// This rank's copy of an operation touches no slot and no page any more, or never will. Whatever there is to say about how it
    /// ended is posted before.
    ///
    /// Raises:
    ///     ProtocolError: the operation is not issued here, or has finished.
    fn finish(&self, py: Python<'_>, operation: Given<'_, '_>) -> PyResult<()> {
        let operation = Ordinal(scalars::OPERATION.read(operation)?);
        self.run(py, |board| board.finish(operation))
    }

    /// This rank pauses, for example to capture graphs, or goes on. While any rank is paused no wait grows older.
    #[pyo3(signature = (paused = None), text_signature = "($self, paused=True)")]
    fn pause(&self, py: Python<'_>, paused: Option<Given<'_, '_>>) -> PyResult<()> {
        let paused = paused.map_or(Ok(true), |paused| scalars::boolean(paused, "paused"))?;
        self.shared.enter(py, |board| board.pause(paused))
    }

    /// The decision digest with which this rank entered a step; None if it is not one of the last 4,096.
    fn digest(&self, py: Python<'_>, step: Given<'_, '_>) -> PyResult<Option<u64>> {
        let step = STEP.read(step)?;
        self.shared.enter(py, |board| board.digests().get(step))
    }

    /// These digests as bytes, to be gathered for `blame`: 16 a step, oldest first, step and digest as little-endian u64.
    fn digest_ring_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.shared.enter(py, |board| board.digests().to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// Operations that may be open at a time.
    #[getter]
    fn window(&self) -> u32 {
        self.shared.window
    }

    fn __repr__(&self) -> String {
        format!("<Board rank={}, window={}>", self.shared.rank, self.shared.window)
    }

    /// Copies and pickles come here, all of them.
    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        Err(errors::not_copyable(py, "Board"))
    }
}

/// The choice that a str names.
fn one_of<T: Copy>(given: Given<'_, '_>, name: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let py = given.py();
    let names = choices.iter().map(|(name, _)| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let text = given.cast::<PyString>().map_err(|_| {
        errors::input_type(py, format!("{name} is {}, expected a str\nhint: one of {names}", describe(given)))
    })?;
    let text = text.to_string_lossy();
    choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
        errors::new(py, Class::InvalidInput, format!("{name} {text:?} is unknown\nhint: one of {names}"))
    })
}

/// Where the digest rings of several ranks part first.
///
/// Args:
///     rings: what `Board.digest_ring_bytes` gave, of each rank in order.
///
/// Returns:
///     A DivergenceError to be raised, that names the step and the ranks which differ from most; None if all steps that every
///     ring holds are equal.
///
/// Raises:
///     InputTypeError: `rings` is no sequence of bytes.
#[pyfunction]
fn blame<'py>(py: Python<'py>, rings: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let iterator = rings.try_iter().map_err(|cause| {
        if errors::is_not_of_input(py, &cause) {
            return cause;
        }
        let message = format!(
            "rings is {}, expected a sequence of bytes\nhint: pass the digest_ring_bytes() of all ranks, in their order",
            describe(rings)
        );
        errors::input_type(py, message)
    })?;
    let rings = iterator
        .map(|ring| bytes::read(&ring?, "ring", DigestRing::records_from_bytes))
        .collect::<PyResult<Vec<Vec<StepDigest>>>>()?;
    let divergence = py.detach(|| protocol::blame(&rings));
    Ok(divergence.map(|divergence| refusals::from_divergence(py, &divergence).into_value(py).into_bound(py).into_any()))
}
