//! Numpy arrays, read through their header: the buffer protocol would cost more than a short lookup.

use std::ffi::c_long;

use isoradix_core::Ints;
use numpy::npyffi::NPY_TYPES;
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Role, refuse_byte_order, refuse_dimensions, refuse_dtype, refuse_layout};

/// Borrows the items of `array`.
#[inline]
pub(super) fn borrow<'a>(array: &'a Bound<'_, PyUntypedArray>, role: &Role) -> PyResult<Ints<'a>> {
    let py = array.py();
    let dtype = array.dtype();
    if array.ndim() != 1 {
        return Err(refuse_dimensions(py, role, array.ndim()));
    }
    let Some(lane) = Lane::of(dtype.num()) else {
        return Err(refuse_dtype(py, role, &dtype.to_string()));
    };
    if dtype.is_native_byteorder() == Some(false) {
        return Err(refuse_byte_order(py, role, &dtype.to_string()));
    }
    if !array.is_c_contiguous() {
        return Err(refuse_layout(py, role, "contiguous"));
    }
    if !array.is_aligned() {
        return Err(refuse_layout(py, role, "aligned"));
    }
    // SAFETY: the checks above are what `items` asks for.
    Ok(unsafe {
        match lane {
            Lane::I32 => Ints::I32(items(array)),
            Lane::U32 => Ints::U32(items(array)),
            Lane::I64 => Ints::I64(items(array)),
        }
    })
}

/// The widths that the core reads.
enum Lane {
    I32,
    U32,
    I64,
}

impl Lane {
    /// By numpy's type number. Which width `long` has is up to the platform.
    #[inline]
    fn of(number: i32) -> Option<Self> {
        const LONG_IS_32: bool = size_of::<c_long>() == 4;
        const INT: i32 = NPY_TYPES::NPY_INT as i32;
        const UINT: i32 = NPY_TYPES::NPY_UINT as i32;
        const LONG: i32 = NPY_TYPES::NPY_LONG as i32;
        const ULONG: i32 = NPY_TYPES::NPY_ULONG as i32;
        const LONGLONG: i32 = NPY_TYPES::NPY_LONGLONG as i32;
        match number {
            LONG if LONG_IS_32 => Some(Self::I32),
            ULONG if LONG_IS_32 => Some(Self::U32),
            LONG | LONGLONG => Some(Self::I64),
            INT => Some(Self::I32),
            UINT => Some(Self::U32),
            _ => None,
        }
    }
}

/// # Safety
/// The array is one-dimensional, contiguous and aligned, and its items are of the width of `T`.
#[inline]
unsafe fn items<'a, T: Element>(array: &'a Bound<'_, PyUntypedArray>) -> &'a [T] {
    let len = array.len();
    if len == 0 {
        // An empty array may have no memory at all.
        return &[];
    }
    // SAFETY: the caller vouches for the type, and the array owns `len` items while it is borrowed. Another thread
    // that writes to them meanwhile makes the outcome depend on its timing, as with numpy's own functions; the core
    // checks what it stores and never indexes by an item.
    unsafe { std::slice::from_raw_parts(array.cast_unchecked::<PyArray1<T>>().data(), len) }
}
