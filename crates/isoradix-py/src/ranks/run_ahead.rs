//! Frames in flight.

use isoradix_core::protocol;
use pyo3::prelude::*;

use super::refusals;
use crate::guard::Guarded;
use crate::scalars::{self, Scalar};

/// Receivers.
pub(super) const EDGES: Scalar =
    scalars::up_to("edges", 1 << 16, "pass the number of ranks to which this one sends frames");
/// Stages.
pub(super) const DEPTH: Scalar = scalars::up_to("depth", u32::MAX as u64, "pass the number of pipeline stages");
/// One receiver.
pub(super) const EDGE: Scalar = scalars::up_to("edge", u32::MAX as u64, "one edge a receiver, counted from 0");
/// Frames that arrived.
pub(super) const FRAMES: Scalar = scalars::up_to("frames", u32::MAX as u64, "each completed send is reaped once");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunAhead>()
}

/// Frames in flight on each edge from one rank, bounded by the pipeline's depth plus one.
///
/// A leader has one in its `Rank`; a follower that relays frames down its lane keeps one of its own.
///
/// Args:
///     edges: receivers, 0 to 65536.
///     depth: stages of the pipeline.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is not an int.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct RunAhead {
    inner: Guarded<protocol::RunAhead>,
}

#[pymethods]
impl RunAhead {
    #[new]
    fn new(edges: &Bound<'_, PyAny>, depth: &Bound<'_, PyAny>) -> PyResult<Self> {
        let core = protocol::RunAhead::new(EDGES.read_u32(edges)?, DEPTH.read_u32(depth)?);
        Ok(Self { inner: Guarded::new("RunAhead", core) })
    }

    /// One frame leaves on every edge.
    ///
    /// Raises:
    ///     BackpressureError: an edge has no room; then none leaves.
    fn send(&self, py: Python<'_>) -> PyResult<()> {
        let sent = self.inner.enter(py, || false, protocol::RunAhead::send)?;
        sent.map_err(|pressure| refusals::from_backpressure(py, pressure))
    }

    /// So many frames arrived over an edge: their sends completed.
    ///
    /// Raises:
    ///     InvalidInputError: there is no such edge, or fewer frames are in flight on it.
    #[pyo3(signature = (edge, frames = None), text_signature = "($self, edge, frames=1)")]
    fn delivered(&self, py: Python<'_>, edge: &Bound<'_, PyAny>, frames: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let edge = EDGE.read_u32(edge)?;
        let frames = frames.map_or(Ok(1), |frames| FRAMES.read_u32(frames))?;
        let done = self.inner.enter(py, || false, |ahead| ahead.delivered(edge, frames))?;
        done.map_err(|error| refusals::from_protocol(py, &error))
    }

    /// The edge that has no room for one more frame; None if all have.
    #[getter]
    fn full_edge(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.inner.enter(py, || false, |ahead| ahead.pressure().map(|pressure| pressure.edge))
    }
}
