//! Slots and tokens on their way out: one-dimensional, contiguous, writable int64 arrays that own their memory.

use numpy::PyArray1;
use pyo3::prelude::*;

/// Up to this many values a copy into memory of numpy's own is cheaper than wrapping ours.
const COPIED_MAX: usize = 1024;

/// An array that takes over `values`.
pub(crate) fn owned(py: Python<'_>, values: Vec<i64>) -> Bound<'_, PyArray1<i64>> {
    if values.len() <= COPIED_MAX { PyArray1::from_slice(py, &values) } else { PyArray1::from_vec(py, values) }
}
