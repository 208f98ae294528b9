//! What a rank has in a batch, to be compared with what another one sends.

use isoradix_core::protocol::{self, BATCH_REQUESTS_MAX, BatchError, BatchRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::refusals;
use crate::bytes;
use crate::errors::{self, Class, describe};
use crate::scalars::{self, Scalar};

type Core = protocol::BatchHeader;
type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const STEP: Scalar = scalars::any("step", "pass the batch step: cache.clock[0], after the step was entered");
const ORDINAL: Scalar = scalars::any("ordinal", "number the batches, the same way on all ranks");
const CHUNK: Scalar = scalars::up_to("chunk", u64::MAX - 1, "pass the tokens of a chunk of prefill, or None");
const ID: Scalar = scalars::any("request id", "pass a str, or an unsigned 64-bit int");
const PREFIX: Scalar = scalars::any("prefix length", "pass the request's cached tokens");
const EXTEND: Scalar = scalars::any("extend length", "pass the request's tokens to be computed");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BatchHeader>()
}

/// What a rank has in one batch: which requests, how much of each is cached, and how much is computed. Made by `BatchHeader.make`.
///
/// To be sent beside the activations. The rank that receives both makes its own and compares, so that a batch of another shape
/// is named before the forward pass.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct BatchHeader(Core);

#[pymethods]
impl BatchHeader {
    /// The header of one batch on this rank.
    ///
    /// Args:
    ///     step: the batch step.
    ///     requests: a sequence of (id, prefix length, extend length), in the batch's order, at most 65,536: the id as a str or an
    ///         unsigned 64-bit int, of which a hash is kept, and the request's cached tokens and those that are computed.
    ///     chunk: tokens of a chunk of prefill; None if prefill is not chunked.
    ///     rank: this rank, as messages name it.
    ///     ordinal: number of the batch, where a step has several.
    ///
    /// Raises:
    ///     InvalidInputError: a number is out of its range, or there are too many requests.
    ///     InputTypeError: an argument has another type.
    #[staticmethod]
    #[pyo3(
        signature = (step, requests, chunk = None, *, rank = None, ordinal = None),
        text_signature = "(step, requests, chunk=None, *, rank=0, ordinal=0)"
    )]
    fn make(
        py: Python<'_>,
        step: Given<'_, '_>,
        requests: Given<'_, '_>,
        chunk: Option<Given<'_, '_>>,
        rank: Option<Given<'_, '_>>,
        ordinal: Option<Given<'_, '_>>,
    ) -> PyResult<Self> {
        let step = STEP.read(step)?;
        let chunk = chunk.map(|chunk| CHUNK.read(chunk)).transpose()?;
        let rank = rank.map_or(Ok(0), |rank| scalars::RANK.read_u32(rank))?;
        let ordinal = ordinal.map_or(Ok(0), |ordinal| ORDINAL.read(ordinal))?;
        let requests = read_requests(requests)?;
        Core::new(rank, step, ordinal, chunk, requests).map(Self).map_err(|error| refuse(py, &error))
    }

    /// The header as bytes: 48, and 24 for each request.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// What `to_bytes` wrote, on this rank or another one.
    ///
    /// Raises:
    ///     ProtocolError: the bytes are no header of this version, undamaged.
    ///     InputTypeError: `data` is no bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: Given<'_, '_>) -> PyResult<Self> {
        bytes::read(data, "data", Core::from_bytes)?.map(Self).map_err(|error| refuse(py, &error))
    }

    /// Compares this rank's batch with the one that it received.
    ///
    /// Args:
    ///     received: the header that came with the activations.
    ///
    /// Raises:
    ///     DivergenceError: they differ (form A). The message names both ranks, the step and the first request that differs, with both
    ///         its lengths on either rank; `kind` is "batch".
    ///     InputTypeError: `received` is no BatchHeader.
    fn check(&self, py: Python<'_>, received: Given<'_, '_>) -> PyResult<()> {
        let received = received.cast::<Self>().map_err(|_| {
            let message = format!(
                "received is {}, expected a BatchHeader\nhint: pass BatchHeader.from_bytes() of what came with the activations",
                describe(received)
            );
            errors::input_type(py, message)
        })?;
        self.0.check(&received.get().0).map_err(|divergence| refusals::from_divergence(py, &divergence))
    }

    /// The rank that made it.
    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    /// The batch step.
    #[getter]
    fn step(&self) -> u64 {
        self.0.step()
    }

    /// Number of the batch.
    #[getter]
    fn ordinal(&self) -> u64 {
        self.0.ordinal()
    }

    /// Tokens of a chunk of prefill; None if prefill is not chunked.
    #[getter]
    fn chunk(&self) -> Option<u64> {
        self.0.chunk()
    }

    /// Tokens that the forward pass computes, of all requests.
    #[getter]
    fn extend_tokens(&self) -> u64 {
        self.0.extend_tokens()
    }

    fn __len__(&self) -> usize {
        self.0.requests().len()
    }

    fn __repr__(&self) -> String {
        let (rank, step, ordinal) = (self.0.rank(), self.0.step(), self.0.ordinal());
        let (requests, extend) = (self.0.requests().len(), self.0.extend_tokens());
        format!(
            "<BatchHeader rank={rank}, step={step}, ordinal={ordinal}: {requests} requests, {extend} tokens to compute>"
        )
    }
}

#[cold]
fn refuse(py: Python<'_>, error: &BatchError) -> PyErr {
    let class = if let BatchError::Requests { .. } = error { Class::InvalidInput } else { Class::Protocol };
    errors::new(py, class, error.to_string())
}

fn read_requests(given: Given<'_, '_>) -> PyResult<Vec<BatchRequest>> {
    let iterator = given.try_iter().map_err(|cause| {
        if errors::is_not_of_input(given.py(), &cause) {
            return cause;
        }
        let message = format!(
            "requests is {}, expected a sequence of tuples\nhint: pass (id, prefix length, extend length) of each request",
            describe(given)
        );
        errors::input_type(given.py(), message)
    })?;
    // One more than the limit is enough to be refused.
    iterator.take(BATCH_REQUESTS_MAX + 1).map(|request| read_request(&request?)).collect()
}

fn read_request(given: Given<'_, '_>) -> PyResult<BatchRequest> {
    let three = given.cast::<PyTuple>().ok().filter(|three| three.len() == 3).ok_or_else(|| {
        let message = format!(
            "a request is {}, expected a tuple of three\nhint: pass (id, prefix length, extend length)",
            describe(given)
        );
        errors::input_type(given.py(), message)
    })?;
    let (id, prefix, extend) =
        (three.get_item(0)?, PREFIX.read(&three.get_item(1)?)?, EXTEND.read(&three.get_item(2)?)?);
    match id.cast::<PyString>() {
        Ok(name) => Ok(BatchRequest::named(&name.to_string_lossy(), prefix, extend)),
        Err(_) => Ok(BatchRequest::numbered(ID.read(&id)?, prefix, extend)),
    }
}
