//! Slots, tokens and pages on their way out: one-dimensional, contiguous, writable arrays that own their memory.

use numpy::{Element, PyArray1};
use pyo3::prelude::*;

/// Up to this many values a copy into memory of numpy's own is cheaper than wrapping ours.
const COPIED_MAX: usize = 1024;

/// An array that takes over `values`.
pub(crate) fn owned<T: Element + Copy>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    if values.len() <= COPIED_MAX { PyArray1::from_slice(py, &values) } else { PyArray1::from_vec(py, values) }
}

/// Host pages as an int32 array. A pool has no page above [`HOST_PAGES_MAX`](crate::scalars::HOST_PAGES_MAX).
pub(crate) fn pages(py: Python<'_>, pages: Vec<u32>) -> Bound<'_, PyArray1<i32>> {
    owned(py, pages.into_iter().map(u32::cast_signed).collect())
}
