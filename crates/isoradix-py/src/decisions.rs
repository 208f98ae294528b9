//! The queue of decisions, and what it hands out.

use isoradix_core::PerRank;
use isoradix_core::decisions::{
    self as core, DECISION_RANKS_MAX, DECISION_WINDOW_MAX, DecisionError, RULING_ABORTS_MAX, Report, Ruling, Verdict,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes;
use crate::errors::{self, Class, describe};
use crate::guard::Guarded;
use crate::ints::{self, Words};
use crate::ranks::refusals;
use crate::scalars::{self, Scalar};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const REQUEST: Scalar = scalars::any("request", "pass the number by which all ranks know the request");
const EPOCH: Scalar =
    scalars::within("epoch", 1, u32::MAX as u64, "begin with 1, and count on each time the request is admitted again");
const RANK: Scalar = scalars::up_to("rank", DECISION_RANKS_MAX as u64 - 1, "ranks of a domain are counted from 0");
const WINDOW: Scalar =
    scalars::within("window", 1, DECISION_WINDOW_MAX as u64, "pass how many questions may be open; equal on all ranks");
const PATIENCE: Scalar =
    scalars::any("patience_ms", "pass how many milliseconds a question may take; equal on all ranks");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DecisionQueue>()?;
    module.add_class::<DecisionVote>()?;
    module.add_class::<Decided>()
}

/// One vote's result, closed: it is for the leader's `DecisionQueue.rule`, and nobody else reads it.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct DecisionVote(core::DecisionVote);

/// A verdict about one request in one epoch, the same on all ranks at one step.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Decided {
    /// The request.
    #[pyo3(get)]
    request: u64,
    /// Its epoch.
    #[pyo3(get)]
    epoch: u32,
    /// "ready", "failed", "aborted", "timed_out" (all ranks have reported, and some still waits) or "missing" (some rank has not).
    #[pyo3(get)]
    verdict: &'static str,
    /// The first rank of the domain that failed, waits or has not reported; None where there is none, or no vote has spoken of it.
    #[pyo3(get)]
    rank: Option<u32>,
}

#[pymethods]
impl Decided {
    fn __repr__(&self) -> String {
        let Self { request, epoch, verdict, rank } = self;
        let rank = rank.map_or_else(String::new, |rank| format!(", rank={rank}"));
        format!("<Decided request={request}, epoch={epoch}, {verdict}{rank}>")
    }
}

/// Questions about requests whose answer each rank finds out by itself: is it ready everywhere? One token and one verdict for each
/// request and epoch, on all ranks at one step.
///
/// `ask`, `retract`, `forget` and `apply` are logical: all ranks call them in one order. `report`, `fill` and `complete` are this
/// rank's own, on any thread. `rule` is the leader's.
///
/// Args:
///     rank: this rank in its domain, 0 to 4095.
///     window: questions that may be open, 1 to 4096, equal on all ranks.
///     patience_ms: milliseconds that each may take, by the clock in rulings; equal on all ranks.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value has the wrong type.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct DecisionQueue {
    inner: Guarded<core::DecisionQueue>,
    words: usize,
}

#[pymethods]
impl DecisionQueue {
    #[new]
    fn new(py: Python<'_>, rank: Given<'_, '_>, window: Given<'_, '_>, patience_ms: Given<'_, '_>) -> PyResult<Self> {
        let (rank, window) = (RANK.read_u32(rank)?, WINDOW.read_u32(window)?);
        let queue = core::DecisionQueue::new(rank, window, PATIENCE.read(patience_ms)?);
        let queue = queue.map_err(|error| refuse(py, &error))?;
        let words = queue.words();
        Ok(Self { inner: Guarded::new("DecisionQueue", queue), words })
    }

    /// Asks whether a request is ready everywhere.
    ///
    /// Raises:
    ///     ProtocolError: it has a question of this epoch or a later one, or an open one.
    ///     BackpressureError: as many are open, or remembered, as may be.
    fn ask(&self, py: Python<'_>, request: Given<'_, '_>, epoch: Given<'_, '_>) -> PyResult<()> {
        let (request, epoch) = (REQUEST.read(request)?, EPOCH.read_u32(epoch)?);
        self.enter(py, |queue| queue.ask(request, epoch))
    }

    /// Takes a question back without a verdict.
    ///
    /// Raises:
    ///     ProtocolError: it is not open.
    fn retract(&self, py: Python<'_>, request: Given<'_, '_>) -> PyResult<()> {
        let request = REQUEST.read(request)?;
        self.enter(py, |queue| queue.retract(request))
    }

    /// The request is over: nothing is remembered of it any more.
    ///
    /// Raises:
    ///     ProtocolError: it is not known, or has an open question.
    fn forget(&self, py: Python<'_>, request: Given<'_, '_>) -> PyResult<()> {
        let request = REQUEST.read(request)?;
        self.enter(py, |queue| queue.forget(request))
    }

    /// Applies a ruling: the verdicts of this step, in the order of their questions.
    ///
    /// Raises:
    ///     DivergenceError: it is not of the next step, or the ranks have parted.
    ///     ProtocolError: the bytes are no ruling.
    fn apply(&self, py: Python<'_>, ruling: Given<'_, '_>) -> PyResult<Vec<Decided>> {
        let ruling = bytes::read(ruling, "ruling", Ruling::from_bytes)?;
        let ruling = ruling.map_err(|error| refusals::from_frame(py, &error))?;
        let decided = self.enter(py, |queue| queue.apply(&ruling))?;
        let each = decided.into_iter().map(|one| Decided {
            request: one.request,
            epoch: one.epoch,
            verdict: name(one.verdict),
            rank: one.rank,
        });
        Ok(each.collect())
    }

    /// What this rank sees of a request: "pending", "ready" or "failed". Whether it counts for this epoch: what comes after ready or
    /// failed does not, and a failure then is this rank's report of the request's next epoch.
    ///
    /// Raises:
    ///     ProtocolError: the request is not known here, or not in this epoch yet.
    ///     InvalidInputError: there is no such report.
    fn report(
        &self,
        py: Python<'_>,
        request: Given<'_, '_>,
        epoch: Given<'_, '_>,
        report: Given<'_, '_>,
    ) -> PyResult<bool> {
        let (request, epoch, report) = (REQUEST.read(request)?, EPOCH.read_u32(epoch)?, read_report(report)?);
        self.enter(py, |queue| queue.report(request, epoch, PerRank::observe(report)))
    }

    /// Writes this rank's ballot to `out`, `words` items of int64, to be reduced by MIN over all ranks.
    ///
    /// Raises:
    ///     InvalidInputError: `out` has another length.
    ///     InputTypeError: `out` is of another type or layout.
    fn fill(&self, py: Python<'_>, out: Given<'_, '_>) -> PyResult<()> {
        let mut words = Words::prepare(out, &ints::OUT)?;
        let out = words.write(py, &ints::OUT)?;
        self.check_words(py, out.len())?;
        self.enter(py, |queue| queue.fill(out))
    }

    /// Takes what the ranks have reduced.
    ///
    /// Raises:
    ///     DivergenceError: it is no reduction of ballots of this vote.
    ///     InvalidInputError, InputTypeError: as for `fill`.
    fn complete(&self, py: Python<'_>, reduced: Given<'_, '_>) -> PyResult<DecisionVote> {
        let words = Words::prepare(reduced, &ints::REDUCED)?;
        let reduced = words.read(py, &ints::REDUCED)?;
        self.check_words(py, reduced.len())?;
        self.enter(py, |queue| queue.complete(reduced)).map(DecisionVote)
    }

    /// The leader's ruling of the next step, as bytes, which all ranks `apply`, the leader too.
    ///
    /// Args:
    ///     now_ms: the leader's monotonic clock in milliseconds.
    ///     newest: what `complete` gave last; None before the first.
    ///     aborts: requests to be given up, at most 4096; those without an open question are left out.
    ///
    /// Raises:
    ///     InvalidInputError: there are too many aborts, or a value is out of its range.
    #[pyo3(signature = (now_ms, newest = None, aborts = Vec::new()), text_signature = "($self, now_ms, newest=None, aborts=())")]
    #[expect(clippy::needless_pass_by_value, reason = "a sequence is extracted to its own vector")]
    fn rule<'py>(
        &self,
        py: Python<'py>,
        now_ms: Given<'_, 'py>,
        newest: Option<Given<'_, 'py>>,
        aborts: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let now_ms = scalars::NOW_MS.read(now_ms)?;
        let newest = newest.map(read_vote).transpose()?;
        let aborts = aborts.iter().map(|request| REQUEST.read(request)).collect::<PyResult<Vec<u64>>>()?;
        if aborts.len() > RULING_ABORTS_MAX {
            let what = format!("{} aborts were given, limit {RULING_ABORTS_MAX}", aborts.len());
            return Err(errors::new(
                py,
                Class::InvalidInput,
                format!("{what}\nhint: give the rest to the next ruling"),
            ));
        }
        let ruling = self.inner.enter(py, || false, |queue| queue.rule(now_ms, newest.as_ref(), &aborts))?;
        Ok(PyBytes::new(py, &ruling.to_bytes()))
    }

    /// Whether a request has a question without a verdict.
    fn is_open(&self, py: Python<'_>, request: Given<'_, '_>) -> PyResult<bool> {
        let request = REQUEST.read(request)?;
        self.inner.enter(py, || false, |queue| queue.is_open(request))
    }

    /// Questions without a verdict.
    #[getter]
    fn open(&self, py: Python<'_>) -> PyResult<usize> {
        self.inner.enter(py, || false, |queue| queue.open())
    }

    /// Requests that are remembered: from their first question until they are forgotten.
    #[getter]
    fn remembered(&self, py: Python<'_>) -> PyResult<usize> {
        self.inner.enter(py, || false, |queue| queue.remembered())
    }

    /// Digest of all questions, retractions and verdicts: equal on all ranks at each step.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.inner.enter(py, || false, |queue| queue.digest())
    }

    /// Steps so far.
    #[getter]
    fn step(&self, py: Python<'_>) -> PyResult<u64> {
        self.inner.enter(py, || false, |queue| queue.step())
    }

    /// Items of a ballot, each an int64.
    #[getter]
    fn words(&self) -> usize {
        self.words
    }

    /// Copies and pickles come here, all of them.
    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: Given<'_, '_>) -> PyResult<()> {
        let _ = protocol;
        Err(errors::not_copyable(py, "DecisionQueue"))
    }
}

impl DecisionQueue {
    fn enter<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut core::DecisionQueue) -> Result<R, DecisionError>,
    ) -> PyResult<R> {
        self.inner.enter(py, || false, work)?.map_err(|error| refuse(py, &error))
    }

    fn check_words(&self, py: Python<'_>, given: usize) -> PyResult<()> {
        if given == self.words {
            return Ok(());
        }
        let what = format!("a ballot of {given} words was given, expected {}", self.words);
        Err(errors::new(py, Class::InvalidInput, format!("{what}\nhint: make it as long as `words` says")))
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ready => "ready",
        Verdict::Failed => "failed",
        Verdict::Aborted => "aborted",
        Verdict::TimedOut => "timed_out",
        Verdict::Missing => "missing",
    }
}

fn read_report(given: Given<'_, '_>) -> PyResult<Report> {
    match given.extract::<&str>() {
        Ok("pending") => Ok(Report::Pending),
        Ok("ready") => Ok(Report::Ready),
        Ok("failed") => Ok(Report::Failed),
        other => {
            let class = if other.is_ok() { Class::InvalidInput } else { Class::InputType };
            let given_is = other.map_or_else(|_| describe(given), |text| format!("{text:?}"));
            let message =
                format!("report is {given_is}, expected 'pending', 'ready' or 'failed'\nhint: say what this rank sees");
            Err(errors::new(given.py(), class, message))
        }
    }
}

fn read_vote(given: Given<'_, '_>) -> PyResult<core::DecisionVote> {
    given.cast::<DecisionVote>().map(|vote| vote.get().0.clone()).map_err(|_| {
        let message =
            format!("newest is {}, expected a DecisionVote\nhint: pass what complete() gave last", describe(given));
        errors::input_type(given.py(), message)
    })
}

#[cold]
fn refuse(py: Python<'_>, error: &DecisionError) -> PyErr {
    match error {
        DecisionError::Mismatch { .. } => refusals::parted_decisions(py, error.to_string()),
        DecisionError::Full { .. } | DecisionError::Crowded { .. } => {
            errors::new(py, Class::Backpressure, error.to_string())
        }
        _ => errors::new(py, Class::Protocol, error.to_string()),
    }
}
