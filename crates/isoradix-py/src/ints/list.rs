//! Lists and tuples of int: the only input that is copied.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use super::Role;
use crate::errors::{self, Class, describe};
use crate::scalars;

/// Copies the ints of `list` to `out`.
pub(super) fn copy(list: &Bound<'_, PyList>, out: &mut Vec<i64>, role: &Role) -> PyResult<()> {
    let (py, len) = (list.py(), list.len());
    out.reserve_exact(len);
    for index in 0..len {
        // SAFETY: a valid list; the item is borrowed from it for the next line only.
        let item = unsafe { Borrowed::from_ptr_or_opt(py, ffi::PyList_GetItem(list.as_ptr(), index.cast_signed())) };
        let item = item.ok_or_else(|| shrunk(py, role))?;
        out.push(read(item, index, role)?);
    }
    Ok(())
}

/// An item's `__index__` may run any code, also such that takes items out of the list that is being read.
#[cold]
fn shrunk(py: Python<'_>, role: &Role) -> PyErr {
    drop(PyErr::take(py));
    let name = role.name;
    errors::new(
        py,
        Class::InvalidInput,
        format!("{name} became shorter while it was read\nhint: pass a tuple, or a list that nobody changes meanwhile"),
    )
}

/// Copies the ints of `tuple` to `out`.
pub(super) fn copy_tuple(tuple: &Bound<'_, PyTuple>, out: &mut Vec<i64>, role: &Role) -> PyResult<()> {
    out.reserve_exact(tuple.len());
    for (index, item) in tuple.iter_borrowed().enumerate() {
        out.push(read(item, index, role)?);
    }
    Ok(())
}

#[inline]
fn read(item: Borrowed<'_, '_, PyAny>, index: usize, role: &Role) -> PyResult<i64> {
    match scalars::small(&item) {
        Some(value) => Ok(value),
        None => read_rare(&item.to_owned(), index, role),
    }
}

/// An item that is not an int of 64 bits: numpy's integers are fine, all else is refused.
#[cold]
fn read_rare(item: &Bound<'_, PyAny>, index: usize, role: &Role) -> PyResult<i64> {
    let py = item.py();
    let Role { name, item: noun, max, .. } = role;
    // SAFETY: a valid object, and the result is a new reference or null with an exception set.
    let int = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyNumber_Index(item.as_ptr())) };
    match int {
        Ok(int) if !item.is_instance_of::<PyBool>() => int.extract::<i64>().map_err(|_| {
            let value = scalars::number(&int);
            let message = format!(
                "{noun} {value} at index {index} is out of range: 0 to {max}\n\
                 hint: {name} holds ids of {noun}s, and nothing else"
            );
            errors::new(py, Class::InvalidInput, message)
        }),
        Err(cause) if errors::is_not_of_input(py, &cause) => Err(cause),
        refused => {
            let error = errors::input_type(
                py,
                format!(
                    "{name} has {} at index {index}; accepted are ints from 0 to {max}\n\
                     hint: convert the items to int first",
                    describe(item)
                ),
            );
            error.set_cause(py, refused.err());
            Err(error)
        }
    }
}
