//! What can be seen of a frame.

use isoradix_core::protocol::Frame;
use pyo3::prelude::*;

use super::control::Control;
use super::refusals;
use crate::bytes;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FrameInfo>()?;
    module.add_function(wrap_pyfunction!(read_frame, module)?)
}

/// What can be seen of a frame. Its numbers are for the cache alone.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct FrameInfo {
    /// The step at which all ranks apply it.
    #[pyo3(get)]
    step: u64,
    /// Ordinal of the vote that it carries; None if it carries no new one.
    #[pyo3(get)]
    vote: Option<u64>,
    /// The last step that every rank had applied, as that vote says; None without one, and before the first. For a report.
    #[pyo3(get)]
    applied_step: Option<u64>,
    controls: Vec<Control>,
}

#[pymethods]
impl FrameInfo {
    /// The leader's decisions, in the order in which they are applied: those it was given, and prefetches that timed out.
    #[getter]
    fn controls(&self) -> Vec<Control> {
        self.controls.clone()
    }

    /// Whether it is the last frame.
    #[getter]
    fn stops(&self) -> bool {
        self.controls.contains(&Control::new(isoradix_core::protocol::Control::Stop))
    }

    fn __repr__(&self) -> String {
        let Self { step, vote, controls, .. } = self;
        let vote = vote.map_or_else(|| "None".to_owned(), |vote| vote.to_string());
        format!("<FrameInfo step={step}, vote={vote}, {} controls>", controls.len())
    }
}

impl FrameInfo {
    pub(super) fn new(frame: &Frame) -> Self {
        let controls = frame.controls().iter().copied().map(Control::new).collect();
        Self { step: frame.step(), vote: frame.vote(), applied_step: frame.applied_step(), controls }
    }
}

/// Reads a `frame` argument.
pub(super) fn read(given: &Bound<'_, PyAny>) -> PyResult<Frame> {
    bytes::read(given, "frame", Frame::from_bytes)?.map_err(|error| refusals::from_frame(given.py(), &error))
}

/// What can be seen of the frame that these bytes are. It is applied with `Rank.follow`.
///
/// Raises:
///     ProtocolError: they are not the bytes of a whole frame of this version, undamaged.
///     InputTypeError: `frame` is no bytes.
#[pyfunction]
fn read_frame(frame: &Bound<'_, PyAny>) -> PyResult<FrameInfo> {
    read(frame).map(|frame| FrameInfo::new(&frame))
}
