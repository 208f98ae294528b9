//! How many host pages a budget of bytes holds.

use isoradix_core::host;
use pyo3::prelude::*;

use crate::errors::{self, Class};
use crate::scalars::{self, Scalar};

const BYTES: Scalar = scalars::any("bytes", "pass the bytes of host memory that this rank may use");
const BYTES_PER_TOKEN: Scalar =
    scalars::within("bytes_per_token", 1, u64::MAX, "pass shape.bytes_per_token: all layers of this rank");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pages_within, module)?)
}

/// Host pages that a budget of bytes holds.
///
/// The last page is taken whole, so the budget may be exceeded by less than a page. Ranks whose tokens differ in bytes come to different
/// numbers; the smallest is agreed at start.
///
/// Args:
///     bytes: the budget.
///     bytes_per_token: bytes of a token in all layers of this rank, 1 or more.
///     page_size: tokens in a page, 1 to 1024.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is not an int.
#[pyfunction]
fn pages_within(
    py: Python<'_>,
    bytes: &Bound<'_, PyAny>,
    bytes_per_token: &Bound<'_, PyAny>,
    page_size: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let (bytes, bytes_per_token) = (BYTES.read(bytes)?, BYTES_PER_TOKEN.read(bytes_per_token)?);
    let page_size = scalars::PAGE_SIZE.read_u32(page_size)?;
    host::capacity_tokens(bytes, bytes_per_token, page_size)
        .map(|tokens| tokens / u64::from(page_size))
        .map_err(|error| errors::new(py, Class::InvalidInput, error.to_string()))
}
