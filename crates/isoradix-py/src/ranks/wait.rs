//! How long a wait may last.

use isoradix_core::protocol;
use pyo3::prelude::*;

use super::refusals;
use super::votes::VoteMachine;
use crate::errors::{self, describe};
use crate::guard::Guarded;
use crate::scalars::{self, Scalar};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const REPORT_MS: Scalar = scalars::any("report_ms", "pass milliseconds, a few seconds");
const FATAL_MS: Scalar = scalars::any("fatal_ms", "pass milliseconds, no fewer than the server's watchdog");
const WATCHDOG_MS: Scalar =
    scalars::any("watchdog_ms", "pass the milliseconds of the server's watchdog, 0 if it has none");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Patience>()?;
    module.add_class::<Wait>()?;
    module.add_class::<Waiting>()?;
    module.add_class::<Stalled>()?;
    module.add_class::<Stall>()
}

/// The two thresholds of a wait, in milliseconds: it is reported after every `report_ms`, and over after `fatal_ms`.
///
/// Args:
///     report_ms: at least 1, at most `fatal_ms`.
///     fatal_ms: no less than `watchdog_ms`.
///     watchdog_ms: after how long the server itself would give up; 0 if it does not.
///
/// Raises:
///     InvalidInputError: the thresholds are not in this order.
///     InputTypeError: one is not an int.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Patience {
    core: protocol::Patience,
    /// After how long a wait is reported.
    #[pyo3(get)]
    report_ms: u64,
    /// After how long it is over.
    #[pyo3(get)]
    fatal_ms: u64,
}

#[pymethods]
impl Patience {
    #[new]
    #[pyo3(
        signature = (report_ms, fatal_ms, watchdog_ms = None),
        text_signature = "(report_ms, fatal_ms, watchdog_ms=0)"
    )]
    fn new(
        py: Python<'_>,
        report_ms: Given<'_, '_>,
        fatal_ms: Given<'_, '_>,
        watchdog_ms: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let (report_ms, fatal_ms) = (REPORT_MS.read(report_ms)?, FATAL_MS.read(fatal_ms)?);
        let watchdog_ms = watchdog_ms.map_or(Ok(0), |ms| WATCHDOG_MS.read(ms))?;
        let core = protocol::Patience::new(report_ms, fatal_ms, watchdog_ms)
            .map_err(|error| refusals::from_protocol(py, &error))?;
        Ok(Self { core, report_ms, fatal_ms })
    }

    fn __repr__(&self) -> String {
        format!("Patience(report_ms={}, fatal_ms={})", self.report_ms, self.fatal_ms)
    }
}

impl Patience {
    fn read(given: Given<'_, '_>) -> PyResult<protocol::Patience> {
        given.cast::<Self>().map(|patience| patience.get().core).map_err(|_| {
            let message =
                format!("patience is {}, expected a Patience\nhint: pass Patience(5_000, 300_000)", describe(given));
            errors::input_type(given.py(), message)
        })
    }
}

/// What a wait has come to.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq, Clone)]
pub(crate) struct Wait {
    /// "quiet", "report" when another report is due, once for each, or "fatal".
    #[pyo3(get)]
    kind: &'static str,
    /// Milliseconds that it has lasted, pauses left out; None while it is quiet.
    #[pyo3(get)]
    waited_ms: Option<u64>,
}

#[pymethods]
impl Wait {
    fn __repr__(&self) -> String {
        let waited = self.waited_ms.map_or_else(|| "None".to_owned(), |ms| ms.to_string());
        format!("Wait(kind='{}', waited_ms={waited})", self.kind)
    }
}

impl From<protocol::Wait> for Wait {
    fn from(wait: protocol::Wait) -> Self {
        match wait {
            protocol::Wait::Quiet => Self { kind: "quiet", waited_ms: None },
            protocol::Wait::Report { waited_ms } => Self { kind: "report", waited_ms: Some(waited_ms) },
            protocol::Wait::Fatal { waited_ms } => Self { kind: "fatal", waited_ms: Some(waited_ms) },
        }
    }
}

/// One wait, that begins at `now_ms` of this rank's own monotonic clock.
///
/// Raises:
///     InvalidInputError: `now_ms` is negative.
///     InputTypeError: an argument has the wrong type.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Waiting {
    inner: Guarded<protocol::Waiting>,
}

#[pymethods]
impl Waiting {
    #[new]
    fn new(patience: Given<'_, '_>, now_ms: Given<'_, '_>) -> PyResult<Self> {
        let core = protocol::Waiting::begin(Patience::read(patience)?, scalars::NOW_MS.read(now_ms)?);
        Ok(Self { inner: Guarded::new("Waiting", core) })
    }

    /// What the wait has come to. Time since the last look does not count while `paused`.
    #[pyo3(signature = (now_ms, paused = None), text_signature = "($self, now_ms, paused=False)")]
    fn look(&self, py: Python<'_>, now_ms: Given<'_, '_>, paused: Option<Given<'_, '_>>) -> PyResult<Wait> {
        let (now_ms, paused) = (scalars::NOW_MS.read(now_ms)?, scalars::flag(paused, "paused")?);
        self.inner.enter(py, || false, |waiting| waiting.look(now_ms, paused).into())
    }
}

/// What `Stall.look` saw.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Stalled {
    wait: Wait,
    /// The step of the slowest rank; None before the first.
    #[pyo3(get)]
    step: Option<u64>,
    /// This rank, if it is the slowest or one of them, else None: each names itself.
    #[pyo3(get)]
    rank: Option<u32>,
}

#[pymethods]
impl Stalled {
    /// How long the slowest rank has been at its step.
    #[getter]
    fn wait(&self) -> Wait {
        self.wait.clone()
    }

    fn __repr__(&self) -> String {
        let or_none = |number: Option<u64>| number.map_or_else(|| "None".to_owned(), |number| number.to_string());
        let (wait, step, rank) = (self.wait.__repr__(), or_none(self.step), or_none(self.rank.map(u64::from)));
        format!("Stalled(wait={wait}, step={step}, rank={rank})")
    }
}

/// Watches that every rank keeps applying steps: one whose scheduler died while its vote thread lives shows as a frozen step.
///
/// Args:
///     patience: how long a step may last.
///     now_ms: this rank's monotonic clock.
///
/// Raises:
///     InvalidInputError: `now_ms` is negative.
///     InputTypeError: an argument has the wrong type.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Stall {
    inner: Guarded<protocol::Stall>,
}

#[pymethods]
impl Stall {
    #[new]
    fn new(patience: Given<'_, '_>, now_ms: Given<'_, '_>) -> PyResult<Self> {
        let core = protocol::Stall::begin(Patience::read(patience)?, scalars::NOW_MS.read(now_ms)?);
        Ok(Self { inner: Guarded::new("Stall", core) })
    }

    /// To be called by the vote thread after every completed vote.
    fn look(&self, py: Python<'_>, votes: Given<'_, '_>, now_ms: Given<'_, '_>) -> PyResult<Stalled> {
        let (votes, now_ms) = (VoteMachine::read(votes)?, scalars::NOW_MS.read(now_ms)?);
        let other = (&votes.inner, || false);
        let seen = self.inner.enter_with(py, || false, other, |_| 0, |stall, votes| stall.look(votes, now_ms))?;
        let protocol::Stalled { wait, step, rank } = seen;
        Ok(Stalled { wait: wait.into(), step, rank })
    }
}
