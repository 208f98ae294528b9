//! What a difference of digests does, by name.

use isoradix_core::protocol::DivergenceMode;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{self, Class, describe};

/// Reads a `mode` argument: `"off"`, `"observe"` or `"enforce"`.
pub(super) fn read(given: &Bound<'_, PyAny>) -> PyResult<DivergenceMode> {
    const HINT: &str =
        "hint: \"enforce\" ends a rank that parts, \"observe\" tells and goes on, \"off\" compares nothing";
    let py = given.py();
    let name = given
        .cast::<PyString>()
        .map_err(|_| errors::input_type(py, format!("mode is {}, expected a str\n{HINT}", describe(given))))?
        .to_string_lossy();
    DivergenceMode::from_name(&name).ok_or_else(|| {
        let message = format!("mode {name:?} is unknown: accepted are \"off\", \"observe\" and \"enforce\"\n{HINT}");
        errors::new(py, Class::InvalidInput, message)
    })
}
