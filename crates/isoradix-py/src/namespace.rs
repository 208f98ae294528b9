//! Namespaces between Python and the core: `None`, or a pair of extra key and salt.

use isoradix_core::Namespace;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::{self, Class, describe};

/// The pair as Python sees it.
pub(crate) type Pair<'a> = (Option<&'a str>, Option<&'a str>);

const REQUIRED_HINT: &str =
    "hint: pass a pair (extra key, salt), each a str or None; (None, None) is the default namespace";
const HINT: &str = "hint: pass None or a pair (extra key, salt), each a str or None, e.g. (\"my-lora\", None)";

/// Reads a `namespace` argument; `None` is the default namespace and costs nothing.
#[inline]
pub(crate) fn read(given: Option<&Bound<'_, PyAny>>) -> PyResult<Namespace> {
    given.map_or_else(|| Ok(Namespace::default()), read_pair)
}

/// Reads a `namespace` argument that has to be spelt out, where forgetting it would drop the wrong one.
pub(crate) fn read_required(given: &Bound<'_, PyAny>) -> PyResult<Namespace> {
    if given.is_none() {
        return Err(errors::input_type(given.py(), format!("namespace is None, expected a pair\n{REQUIRED_HINT}")));
    }
    read_pair(given)
}

fn read_pair(given: &Bound<'_, PyAny>) -> PyResult<Namespace> {
    let pair = given.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2).ok_or_else(|| {
        errors::input_type(given.py(), format!("namespace is {}, expected a pair\n{HINT}", describe(given)))
    })?;
    let (extra_key, salt) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
    Ok(Namespace::new(text(&extra_key, "extra key")?, text(&salt, "salt")?))
}

fn text<'a>(part: &'a Bound<'_, PyAny>, name: &str) -> PyResult<Option<&'a str>> {
    if part.is_none() {
        return Ok(None);
    }
    let py = part.py();
    let text = part
        .cast::<PyString>()
        .map_err(|_| errors::input_type(py, format!("{name} is {}, expected a str or None\n{HINT}", describe(part))))?;
    // Lone surrogates have no UTF-8 form, and so no hash that every rank agrees on.
    text.to_str().map(Some).map_err(|cause| {
        let message = format!("{name} has a character that is no text: {cause}\n{HINT}");
        let error = errors::new(py, Class::InvalidInput, message);
        error.set_cause(py, Some(cause));
        error
    })
}

/// The pair of a namespace.
pub(crate) fn pair(namespace: &Namespace) -> Pair<'_> {
    (namespace.extra_key(), namespace.salt())
}

/// The pair in Python's notation, for a `repr`.
pub(crate) fn show(namespace: &Namespace) -> String {
    let part = |part: Option<&str>| part.map_or_else(|| "None".to_owned(), |text| format!("{text:?}"));
    format!("({}, {})", part(namespace.extra_key()), part(namespace.salt()))
}
