//! Anything else with a buffer: `array.array`, `memoryview`, ctypes arrays.
//!
//! The view is kept in the caller's frame; pyo3's own `PyBuffer` would put it on the heap.

use std::ffi::CStr;

use isoradix_core::Ints;
use pyo3::ffi;
use pyo3::prelude::*;

use super::{Role, hint, refuse_byte_order, refuse_dimensions, refuse_dtype, refuse_layout};
use crate::errors;

/// Whether `given` has a buffer.
#[inline]
pub(super) fn has(given: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a valid object; the check only looks at its type.
    unsafe { ffi::PyObject_CheckBuffer(given.as_ptr()) != 0 }
}

/// A buffer view, held until dropped. An exporter may point into the view, so it must not move while it is borrowed;
/// the borrow of `self` sees to that.
#[derive(Default)]
pub(super) struct View(Option<ffi::Py_buffer>);

impl View {
    /// Borrows the items of the buffer that was taken.
    pub(super) fn borrow(&self, py: Python<'_>, role: &Role) -> PyResult<Ints<'_>> {
        let view = self.0.as_ref().expect("a buffer was taken");
        if view.ndim != 1 {
            return Err(refuse_dimensions(py, role, usize::try_from(view.ndim).unwrap_or(0)));
        }
        let len = view.len / view.itemsize.max(1);
        // SAFETY: a view with one dimension that was asked for with strides has one stride, or null if contiguous.
        let contiguous = len <= 1 || view.strides.is_null() || unsafe { *view.strides } == view.itemsize;
        if !contiguous {
            return Err(refuse_layout(py, role, "contiguous"));
        }
        let lane = Lane::of(view);
        if let Lane::Foreign = lane {
            return Err(refuse_byte_order(py, role, &format!("{:?}", format(view))));
        }
        if let Lane::Other = lane {
            return Err(refuse_dtype(py, role, &format!("{:?} (buffer format)", format(view))));
        }
        // An empty buffer may point anywhere.
        let aligned = view.buf.addr().is_multiple_of(view.itemsize.unsigned_abs());
        if len > 0 && !aligned {
            return Err(refuse_layout(py, role, "aligned"));
        }
        let len = len.unsigned_abs();
        // SAFETY: one dimension, contiguous, aligned, of the width that the format and item size name; the exporter
        // keeps the memory in place until the view is released, which is not before the borrow ends.
        Ok(unsafe {
            match lane {
                Lane::I32 => Ints::I32(items(view, len)),
                Lane::U32 => Ints::U32(items(view, len)),
                Lane::I64 | Lane::Foreign | Lane::Other => Ints::I64(items(view, len)),
            }
        })
    }

    /// Where the items lie, if they may be written.
    pub(super) fn place(&self) -> Option<*mut i64> {
        self.0.as_ref().filter(|view| view.readonly == 0).map(|view| view.buf.cast())
    }

    /// Takes the buffer of `given`, which may run Python code.
    pub(super) fn take(&mut self, given: &Bound<'_, PyAny>, role: &Role) -> PyResult<()> {
        debug_assert!(self.0.is_none());
        let view = self.0.insert(ffi::Py_buffer::new());
        // SAFETY: a valid object and a view that the exporter fills in.
        if unsafe { ffi::PyObject_GetBuffer(given.as_ptr(), view, ffi::PyBUF_RECORDS_RO) } == 0 {
            return Ok(());
        }
        // A view that was not filled in has no owner, and releasing it does nothing.
        let cause = PyErr::fetch(given.py());
        let name = role.name;
        let hint = hint(role, || format!("pass numpy.array({name}, dtype=numpy.int64)"));
        let message = format!("{name} gives no readable buffer: {cause}\nhint: {hint}");
        let error = errors::input_type(given.py(), message);
        error.set_cause(given.py(), Some(cause));
        Err(error)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(view) = &mut self.0 {
            // SAFETY: taken in `take`, released here once; a `View` lives in the frame of a call, where the GIL is held.
            unsafe { ffi::PyBuffer_Release(view) };
        }
    }
}

/// The widths that the core reads, and the two ways not to be one.
enum Lane {
    I32,
    U32,
    I64,
    Foreign,
    Other,
}

impl Lane {
    /// By format letter, as in the `struct` module, and item size: what `l` means depends on platform and prefix.
    fn of(view: &ffi::Py_buffer) -> Self {
        const FOREIGN: u8 = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        let format = format(view).to_bytes();
        let (letter, foreign) = match format {
            [b'@' | b'=', letter] | [letter] => (letter, false),
            [prefix @ (b'<' | b'>' | b'!'), letter] => {
                (letter, *prefix == FOREIGN || (*prefix == b'!' && FOREIGN == b'>'))
            }
            _ => return Self::Other,
        };
        match (letter, view.itemsize) {
            (b'i' | b'l' | b'q' | b'n' | b'I' | b'L', 4 | 8) if foreign => Self::Foreign,
            (b'i' | b'l', 4) => Self::I32,
            (b'I' | b'L', 4) => Self::U32,
            (b'l' | b'q' | b'n', 8) => Self::I64,
            _ => Self::Other,
        }
    }
}

/// The format of a view; none means bytes.
fn format(view: &ffi::Py_buffer) -> &CStr {
    if view.format.is_null() {
        return c"B";
    }
    // SAFETY: an exporter's format is a C string that lives as long as the view.
    unsafe { CStr::from_ptr(view.format) }
}

/// # Safety
/// The view is one-dimensional, contiguous and aligned, with `len` items of the width of `T`.
unsafe fn items<T>(view: &ffi::Py_buffer, len: usize) -> &[T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { std::slice::from_raw_parts(view.buf.cast_const().cast(), len) }
}
