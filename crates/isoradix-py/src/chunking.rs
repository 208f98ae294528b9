//! How long the next chunk of a prefill is.

use isoradix_core::chunking::{ChunkError, ChunkModel, ChunkRule};
use pyo3::prelude::*;

use crate::errors::{self, Class, describe};
use crate::scalars::{self, Scalar};

const BASE: Scalar = scalars::within("base", 1, u32::MAX as u64, "pass the tokens of the first chunk");
const HISTORY: Scalar = scalars::any("history", "pass the tokens of the request that are cached or computed");
const CONTEXT: Scalar = scalars::within("context", 1, u32::MAX as u64, "pass the tokens that a request may have");
const MOST: Scalar = scalars::within("most", 1, u32::MAX as u64, "pass the tokens that a batch of prefill may have");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(next_chunk, module)?)
}

/// How many tokens the next chunk of a prefill has, so that it takes about as long as the first one; None where the context has no room for one.
///
/// With f(l) = a l**2 + b l + c the time of l tokens, x solves f(history + x) - f(history) = f(base) - f(0); the chunk is base + 3/4 (x - base),
/// at least base / 4, a multiple of the page size or of 64, whichever is more, at most `most` and what the context has left but 100. c drops out. Exact: no
/// intermediate value is rounded, so equal arguments give equal chunks on all machines.
///
/// Args:
///     a: milliseconds per squared token, above 0.
///     b: milliseconds per token, 0 or above.
///     history: tokens before the chunk.
///     base: tokens of the first chunk.
///     page_size: tokens in a page, 1 to 1024.
///     context: tokens that a request may have.
///     most: tokens that a chunk may have.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is no number.
#[pyfunction]
#[pyo3(signature = (a, b, history, *, base, page_size, context, most))]
#[expect(clippy::too_many_arguments, reason = "by name in Python")]
fn next_chunk(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    history: &Bound<'_, PyAny>,
    base: &Bound<'_, PyAny>,
    page_size: &Bound<'_, PyAny>,
    context: &Bound<'_, PyAny>,
    most: &Bound<'_, PyAny>,
) -> PyResult<Option<u64>> {
    let refuse = |error: ChunkError| errors::new(py, Class::InvalidInput, error.to_string());
    let (a, b) = (coefficient(a, "a")?, coefficient(b, "b")?);
    let history = HISTORY.read(history)?;
    let page_size = scalars::PAGE_SIZE.read(page_size)?;
    let rule = ChunkRule::new(BASE.read(base)?, page_size, CONTEXT.read(context)?, MOST.read(most)?).map_err(refuse)?;
    let model = ChunkModel::from_bits(a, b).map_err(refuse)?;
    Ok(rule.next_chunk(&model, history))
}

/// The bits of a number; a negative zero is zero.
fn coefficient(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let value: f64 = given.extract().map_err(|_| {
        let message = format!("{name} is {}, expected a number\nhint: pass what was fitted", describe(given));
        errors::input_type(given.py(), message)
    })?;
    Ok(if value == 0.0 { 0 } else { value.to_bits() })
}
