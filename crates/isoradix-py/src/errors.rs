//! The exception classes, and the one place where a core error becomes one of them.

use std::ffi::CStr;

use isoradix_core::{Error, ErrorKind};
use pyo3::exceptions::{
    PyAssertionError, PyException, PyLookupError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// An exception class of ours. The order is that of [`CLASSES`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Isoradix,
    InvalidInput,
    InputType,
    StaleHandle,
    Receipt,
    Held,
    OutOfSlots,
    DoubleFree,
    Policy,
    Invariant,
    ConcurrentUse,
}

struct Spec {
    name: &'static CStr,
    doc: &'static CStr,
    /// The built-in class that callers may also catch it as.
    builtin: fn(Python<'_>) -> Bound<'_, PyType>,
}

const SPECS: [Spec; 11] = [
    Spec {
        name: c"isoradix.IsoradixError",
        doc: c"Base class of every error this package raises on purpose.",
        builtin: PyType::new::<PyException>,
    },
    Spec {
        name: c"isoradix.InvalidInputError",
        doc: c"A value is out of its range, or lengths do not fit together. Nothing changed.",
        builtin: PyType::new::<PyValueError>,
    },
    Spec {
        name: c"isoradix.InputTypeError",
        doc: c"A key, a slot array or an option has a type or dtype that is not accepted. Nothing changed.",
        builtin: PyType::new::<PyTypeError>,
    },
    Spec {
        name: c"isoradix.StaleHandleError",
        doc: c"A node handle outlived its node. Nothing changed.",
        builtin: PyType::new::<PyLookupError>,
    },
    Spec {
        name: c"isoradix.ReceiptError",
        doc: c"A lock or pin receipt was given back before, or was never given out. Nothing changed.",
        builtin: PyType::new::<PyLookupError>,
    },
    Spec {
        name: c"isoradix.HeldError",
        doc: c"The operation would remove tokens that are locked or pinned. Nothing changed.",
        builtin: PyType::new::<PyRuntimeError>,
    },
    Spec {
        name: c"isoradix.OutOfSlotsError",
        doc: c"The slot pool has fewer free slots than were asked for. Nothing changed.",
        builtin: PyType::new::<PyMemoryError>,
    },
    Spec {
        name: c"isoradix.DoubleFreeError",
        doc: c"A slot was given back that is free already, or twice in one call. Nothing changed.",
        builtin: PyType::new::<PyValueError>,
    },
    Spec {
        name: c"isoradix.PolicyError",
        doc: c"A user-defined key function raised, or returned something that is not a key. Nothing changed.",
        builtin: PyType::new::<PyRuntimeError>,
    },
    Spec {
        name: c"isoradix.InvariantError",
        doc: c"`check` found a broken invariant; the message names the node and the figures.",
        builtin: PyType::new::<PyAssertionError>,
    },
    Spec {
        name: c"isoradix.ConcurrentUseError",
        doc: c"A cache was entered again from its own key function, or used in a forked child.",
        builtin: PyType::new::<PyRuntimeError>,
    },
];

static CLASSES: PyOnceLock<[Py<PyType>; SPECS.len()]> = PyOnceLock::new();

/// Makes the exception classes and adds them to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for class in classes(py)? {
        let class = class.bind(py);
        module.add(class.name()?, class)?;
    }
    Ok(())
}

fn classes(py: Python<'_>) -> PyResult<&[Py<PyType>; SPECS.len()]> {
    CLASSES.get_or_try_init(py, || {
        let base = make(py, &SPECS[Class::Isoradix as usize], None)?;
        let mut all = Vec::with_capacity(SPECS.len());
        all.push(base.clone_ref(py));
        for spec in &SPECS[1..] {
            all.push(make(py, spec, Some(base.bind(py)))?);
        }
        Ok(all.try_into().expect("one class for each spec"))
    })
}

/// A new exception class under `base` and the built-in class of `spec`.
fn make(py: Python<'_>, spec: &Spec, base: Option<&Bound<'_, PyType>>) -> PyResult<Py<PyType>> {
    let builtin = (spec.builtin)(py);
    let bases = match base {
        Some(base) => PyTuple::new(py, [base, &builtin])?,
        None => PyTuple::new(py, [&builtin])?,
    };
    let (module, name) = spec.name.to_str().ok().and_then(|name| name.split_once('.')).expect("module.name");
    let body = pyo3::types::PyDict::new(py);
    body.set_item("__module__", module)?;
    body.set_item("__doc__", spec.doc)?;
    let class = py.get_type::<PyType>().call1((name, bases, body))?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// An exception of `class` with `message`, which carries value, limit and hint.
#[cold]
pub(crate) fn new(py: Python<'_>, class: Class, message: impl Into<String>) -> PyErr {
    match classes(py) {
        Ok(classes) => PyErr::from_type(classes[class as usize].bind(py).clone(), message.into()),
        Err(error) => error,
    }
}

/// The exception for a refusal of the core.
#[cold]
pub(crate) fn from_core(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::InvalidInput => Class::InvalidInput,
        ErrorKind::StaleHandle => Class::StaleHandle,
        ErrorKind::Receipt => Class::Receipt,
        ErrorKind::Held => Class::Held,
        ErrorKind::OutOfSlots => Class::OutOfSlots,
        ErrorKind::DoubleFree => Class::DoubleFree,
        ErrorKind::Policy => Class::Policy,
        ErrorKind::Invariant => Class::Invariant,
        // The core may learn new kinds before this binding does.
        _ => Class::Isoradix,
    };
    new(py, class, error.to_string())
}

/// An argument of a type that is not accepted.
#[cold]
pub(crate) fn input_type(py: Python<'_>, message: impl Into<String>) -> PyErr {
    new(py, Class::InputType, message)
}

/// What a caller gave, for a message: `a float (1.5)`; long or failing representations are left out.
#[cold]
pub(crate) fn describe(given: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 40;
    let kind = given.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    if given.is_none() {
        return "None".to_owned();
    }
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O']) { "an" } else { "a" };
    match given.repr().map(|text| text.to_string()) {
        Ok(text) if text.len() <= LONGEST && !text.contains('\n') => format!("{article} {kind} ({text})"),
        _ => format!("{article} {kind}"),
    }
}

/// Whether an error that the caller's code raised says nothing of the input: Ctrl-C, an exit, no memory. It stays as it is.
pub(crate) fn is_not_of_input(py: Python<'_>, cause: &PyErr) -> bool {
    !cause.is_instance_of::<PyException>(py) || cause.is_instance_of::<PyMemoryError>(py)
}

/// Refuses to copy or pickle `what`.
#[cold]
pub(crate) fn not_copyable(py: Python<'_>, what: &str) -> PyErr {
    input_type(
        py,
        format!(
            "a {what} cannot be copied or pickled\n\
             hint: make a new one and make the same calls; equal calls in equal order give an equal {what}"
        ),
    )
}
