//! Bytes on their way in: frames, start records, digest rings.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, describe};

/// Gives `read` the bytes of `given`: `bytes` where they lie, and a copy of any other contiguous buffer of unsigned bytes.
pub(crate) fn read<R>(given: &Bound<'_, PyAny>, name: &str, read: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(read(bytes.as_bytes()));
    }
    let py = given.py();
    // The copy is made in one go, with the GIL held, so no other thread writes to it meanwhile.
    let copy = PyBuffer::<u8>::get(given).and_then(|buffer| buffer.to_vec(py));
    match copy {
        Ok(copy) => Ok(read(&copy)),
        Err(cause) if errors::is_not_of_input(py, &cause) => Err(cause),
        Err(cause) => {
            let message = format!(
                "{name} is {}, expected bytes\nhint: pass bytes, a bytearray, a memoryview or a numpy array of uint8",
                describe(given)
            );
            let error = errors::input_type(py, message);
            error.set_cause(py, Some(cause));
            Err(error)
        }
    }
}
