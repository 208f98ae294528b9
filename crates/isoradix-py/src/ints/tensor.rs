//! Torch tensors, without importing torch: a tensor shows itself as a numpy array over the same memory.

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;

use super::{Role, hint};
use crate::errors::{self, describe};

/// The array over the memory of `given`, or `None` if it is no tensor.
pub(super) fn as_array<'py>(given: &Bound<'py, PyAny>, role: &Role) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    let Some(view) = given.getattr_opt(intern!(given.py(), "numpy"))? else {
        return Ok(None);
    };
    let array = view.call0().map_err(|cause| refuse(given, role, cause))?;
    Ok(array.cast_into::<PyUntypedArray>().ok())
}

/// Says why a tensor has no array: it is elsewhere, or its dtype is none of numpy's.
#[cold]
fn refuse(given: &Bound<'_, PyAny>, role: &Role, cause: PyErr) -> PyErr {
    if errors::is_not_of_input(given.py(), &cause) {
        return cause;
    }
    let name = role.name;
    let text = |attribute: &str| given.getattr(attribute).map_or_else(|_| "?".to_owned(), |value| value.to_string());
    let (device, dtype) = (text("device"), text("dtype"));
    let accepted = role.accepted;
    let or = |usual: &str| hint(role, || usual.replace('$', name));
    let message = match device.as_str() {
        "cpu" => format!(
            "{name} is a tensor of {dtype}; accepted are CPU tensors of {accepted}\nhint: {}",
            or("convert it once, e.g. $.to(torch.int64)")
        ),
        "?" => format!(
            "{name} is {} whose numpy() failed: {cause}\nhint: {}",
            describe(given),
            or("pass a numpy array or a CPU torch tensor of int32 or int64")
        ),
        _ => format!(
            "{name} is a tensor of {dtype} on {device}; accepted are CPU tensors of {accepted}\nhint: {}",
            or("keep keys and slots on the host, or copy explicitly with $.cpu()")
        ),
    };
    let error = errors::input_type(given.py(), message);
    error.set_cause(given.py(), Some(cause));
    error
}
