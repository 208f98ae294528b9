//! Keys and slots on their way in: borrowed where they lie, copied only out of lists and tuples.
//!
//! Accepted are lists and tuples of int, numpy arrays of int32, uint32 and int64, anything with a buffer of these
//! (`array.array`, `memoryview`), and torch tensors on the CPU, which torch shows as numpy arrays without copying.
//! One-dimensional, contiguous, aligned, in native byte order. Read-only memory is fine: nothing is written, but for the
//! ballots of [`Words`].

mod array;
mod buffer;
mod list;
mod tensor;
mod words;

use isoradix_core::{Ints, SLOT_LIMIT, TOKEN_LIMIT};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::{self, describe};

pub(crate) use words::{OUT, REDUCED, Words};

/// What a sequence of integers is for; it names the sequence and its items in messages.
pub(crate) struct Role {
    /// The argument.
    name: &'static str,
    /// One of its items.
    item: &'static str,
    /// The largest item.
    max: u64,
    /// The item types that are accepted.
    accepted: &'static str,
    /// What to do about another type or layout, where that is the same for all of them.
    hint: Option<&'static str>,
}

const NARROW: &str = "int32, uint32 and int64";

/// Tokens.
pub(crate) const KEY: Role = Role { name: "key", item: "token", max: TOKEN_LIMIT - 1, accepted: NARROW, hint: None };
/// Device slots.
pub(crate) const SLOTS: Role = Role { name: "slots", item: "slot", max: SLOT_LIMIT - 1, accepted: NARROW, hint: None };
/// Rows that are copied to.
pub(crate) const DESTINATION_ROWS: Role =
    Role { name: "destination_rows", item: "row", max: i64::MAX as u64, accepted: NARROW, hint: None };
/// Rows that are copied from.
pub(crate) const SOURCE_ROWS: Role =
    Role { name: "source_rows", item: "row", max: i64::MAX as u64, accepted: NARROW, hint: None };

/// Where pieces of pages begin in a memory.
pub(crate) const OFFSETS: Role =
    Role { name: "offsets", item: "offset", max: i64::MAX as u64, accepted: NARROW, hint: None };

impl Role {
    /// The argument, for a message of the caller's own.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

/// Keeps what a borrowed sequence needs to stay readable: nothing, a buffer view, a temporary array or a copy.
///
/// Reading has two halves. `prepare` does all that may run Python code of the caller's: reading the numbers of a list,
/// asking for a buffer, asking a tensor for its array. `ints` runs none. A call with two sequences prepares both before it
/// borrows either, since the code that one of them runs might move the memory of the other.
#[derive(Default)]
pub(crate) struct Borrow<'py> {
    view: buffer::View,
    array: Option<Bound<'py, PyUntypedArray>>,
    copy: Option<Vec<i64>>,
}

impl<'py> Borrow<'py> {
    /// Prepares and borrows a single sequence.
    #[inline]
    pub(crate) fn read<'a>(&'a mut self, given: &'a Bound<'py, PyAny>, role: &Role) -> PyResult<Ints<'a>> {
        self.prepare(given, role)?;
        self.ints(given, role)
    }

    /// Runs what Python code the sequence takes. Once for each `Borrow`.
    #[inline]
    pub(crate) fn prepare(&mut self, given: &Bound<'py, PyAny>, role: &Role) -> PyResult<()> {
        // The order is that of likelihood in an engine, and each test costs a few nanoseconds at most.
        if given.cast::<PyUntypedArray>().is_ok() {
            return Ok(());
        }
        if let Ok(list) = given.cast::<PyList>() {
            return list::copy(list, self.copy.insert(Vec::new()), role);
        }
        self.prepare_rare(given, role)
    }

    fn prepare_rare(&mut self, given: &Bound<'py, PyAny>, role: &Role) -> PyResult<()> {
        if buffer::has(given) {
            return self.view.take(given, role);
        }
        if let Ok(tuple) = given.cast::<PyTuple>() {
            return list::copy_tuple(tuple, self.copy.insert(Vec::new()), role);
        }
        let Some(array) = tensor::as_array(given, role)? else { return Err(refuse_type(given, role)) };
        self.array = Some(array);
        Ok(())
    }

    /// Borrows what was prepared.
    #[inline]
    pub(crate) fn ints<'a>(&'a self, given: &'a Bound<'py, PyAny>, role: &Role) -> PyResult<Ints<'a>> {
        if let Some(copy) = &self.copy {
            return Ok(Ints::I64(copy));
        }
        if let Some(array) = &self.array {
            return array::borrow(array, role);
        }
        match given.cast::<PyUntypedArray>() {
            Ok(array) => array::borrow(array, role),
            Err(_) => self.view.borrow(given.py(), role),
        }
    }
}

#[cold]
fn refuse_type(given: &Bound<'_, PyAny>, role: &Role) -> PyErr {
    let Role { name, accepted, .. } = role;
    let hint = hint(role, || format!("pass list({name}) or numpy.asarray({name}, dtype=numpy.int64)"));
    errors::input_type(
        given.py(),
        format!(
            "{name} is {}; accepted are a list or tuple of int, an array.array, a numpy array or a CPU torch tensor \
             of {accepted}\nhint: {hint}",
            describe(given)
        ),
    )
}

#[cold]
fn refuse_dtype(py: Python<'_>, role: &Role, dtype: &str) -> PyErr {
    let Role { name, accepted, .. } = role;
    let hint =
        hint(role, || format!("convert it once, e.g. {name}.astype(numpy.int64), where the values are integers"));
    let are = if accepted.contains(' ') { "accepted are" } else { "accepted is" };
    errors::input_type(py, format!("{name} has items of type {dtype}; {are} {accepted}\nhint: {hint}"))
}

#[cold]
fn refuse_byte_order(py: Python<'_>, role: &Role, dtype: &str) -> PyErr {
    let name = role.name;
    let hint = hint(role, || format!("convert it once, e.g. {name}.astype(numpy.int64)"));
    let message =
        format!("{name} has items of type {dtype}, which is not the byte order of this machine\nhint: {hint}");
    errors::input_type(py, message)
}

#[cold]
fn refuse_dimensions(py: Python<'_>, role: &Role, dimensions: usize) -> PyErr {
    let name = role.name;
    let hint = hint(role, || format!("pass one sequence a call, e.g. {name}.reshape(-1)"));
    errors::input_type(py, format!("{name} has {dimensions} dimensions, accepted is 1\nhint: {hint}"))
}

#[cold]
fn refuse_layout(py: Python<'_>, role: &Role, fault: &str) -> PyErr {
    let name = role.name;
    let hint = hint(role, || format!("pass a contiguous copy, e.g. numpy.array({name}) or {name}.contiguous()"));
    errors::input_type(py, format!("{name} is not {fault} in memory\nhint: {hint}"))
}

fn hint(role: &Role, usual: impl FnOnce() -> String) -> String {
    role.hint.map_or_else(usual, str::to_owned)
}
