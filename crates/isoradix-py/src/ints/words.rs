//! Vectors of a vote: int64, read and written where they lie.

use isoradix_core::Ints;
use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NPY_ARRAY_WRITEABLE};
use numpy::{PyArray1, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Role, array, buffer, refuse_dtype, tensor};
use crate::errors::{self, describe};

const ACCEPTED: &str = "int64";
const HINT: &str =
    "make one for all votes: numpy.empty(votes.words, numpy.int64) or torch.empty(votes.words, dtype=torch.int64)";

/// What a ballot is written to.
pub(crate) const OUT: Role = Role { name: "out", item: "word", max: u64::MAX, accepted: ACCEPTED, hint: Some(HINT) };
/// What the ranks have reduced.
pub(crate) const REDUCED: Role =
    Role { name: "reduced", item: "word", max: u64::MAX, accepted: ACCEPTED, hint: Some(HINT) };

/// A vector that was given, and what keeps its memory in place. As with [`Borrow`](super::Borrow), preparing may run Python code;
/// reading and writing run none.
pub(crate) struct Words<'py>(Source<'py>);

enum Source<'py> {
    Array(Bound<'py, PyUntypedArray>),
    /// An exporter may point into the view, so it stays where it was filled in.
    Buffer(Box<buffer::View>),
}

impl<'py> Words<'py> {
    /// Takes a numpy array, a tensor's array, or a buffer.
    #[inline]
    pub(crate) fn prepare(given: &Bound<'py, PyAny>, role: &Role) -> PyResult<Self> {
        match given.cast::<PyUntypedArray>() {
            Ok(array) => Ok(Self(Source::Array(array.clone()))),
            Err(_) => Self::prepare_rare(given, role),
        }
    }

    fn prepare_rare(given: &Bound<'py, PyAny>, role: &Role) -> PyResult<Self> {
        if buffer::has(given) {
            let mut view = Box::<buffer::View>::default();
            view.take(given, role)?;
            return Ok(Self(Source::Buffer(view)));
        }
        let array = tensor::as_array(given, role)?.ok_or_else(|| refuse_type(given, role))?;
        Ok(Self(Source::Array(array)))
    }

    /// The words.
    #[inline]
    pub(crate) fn read(&self, py: Python<'_>, role: &Role) -> PyResult<&[i64]> {
        let ints = match &self.0 {
            Source::Array(array) => array::borrow(array, role),
            Source::Buffer(view) => view.borrow(py, role),
        };
        match ints? {
            Ints::I64(words) => Ok(words),
            Ints::I32(_) => Err(refuse_dtype(py, role, "int32")),
            Ints::U32(_) => Err(refuse_dtype(py, role, "uint32")),
        }
    }

    /// The words, to be written.
    #[inline]
    pub(crate) fn write(&mut self, py: Python<'_>, role: &Role) -> PyResult<&mut [i64]> {
        let len = self.read(py, role)?.len();
        let place = match &self.0 {
            Source::Array(array) => {
                // SAFETY: the array is alive and the GIL is held; its flags are a field of its header.
                let flags = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags };
                // SAFETY: `read` has seen that the items are of 64 bits.
                let data = unsafe { array.cast_unchecked::<PyArray1<i64>>() }.data();
                (flags & NPY_ARRAY_WRITEABLE != 0).then_some(data)
            }
            Source::Buffer(view) => view.place(),
        };
        let place = place.ok_or_else(|| refuse_read_only(py, role))?;
        if len == 0 {
            // An empty array may have no memory at all.
            return Ok(&mut []);
        }
        // SAFETY: `read` has seen one dimension of `len` contiguous, aligned items of 64 bits; the owner of the memory says that it may
        // be written, and keeps it in place while `self` is borrowed. Another thread that uses it meanwhile makes the outcome depend on
        // its timing, as with numpy's own functions.
        Ok(unsafe { std::slice::from_raw_parts_mut(place, len) })
    }
}

#[cold]
fn refuse_type(given: &Bound<'_, PyAny>, role: &Role) -> PyErr {
    let name = role.name;
    errors::input_type(
        given.py(),
        format!(
            "{name} is {}; accepted are a numpy array, a CPU torch tensor or a buffer of int64\nhint: {HINT}",
            describe(given)
        ),
    )
}

#[cold]
fn refuse_read_only(py: Python<'_>, role: &Role) -> PyErr {
    errors::input_type(py, format!("{} is read-only, and a ballot is written to it\nhint: {HINT}", role.name))
}
