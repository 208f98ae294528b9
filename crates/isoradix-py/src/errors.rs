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
    Protocol,
    Backpressure,
    Divergence,
    HostPool,
    Operation,
}

struct Spec {
    name: &'static CStr,
    doc: &'static CStr,
    /// The built-in class that callers may also catch it as.
    builtin: fn(Python<'_>) -> Bound<'_, PyType>,
    /// The class of ours that it is under: one that comes before it.
    under: Class,
    /// What its instances say beside the message; None where nothing is to be said.
    attributes: &'static [&'static str],
}

impl Spec {
    const fn new(name: &'static CStr, doc: &'static CStr, builtin: fn(Python<'_>) -> Bound<'_, PyType>) -> Self {
        Self { name, doc, builtin, under: Class::Isoradix, attributes: &[] }
    }
}

const SPECS: [Spec; 16] = [
    Spec::new(
        c"isoradix.IsoradixError",
        c"Base class of every error this package raises on purpose.",
        PyType::new::<PyException>,
    ),
    Spec::new(
        c"isoradix.InvalidInputError",
        c"A value is out of its range, or lengths do not fit together. Nothing changed.",
        PyType::new::<PyValueError>,
    ),
    Spec::new(
        c"isoradix.InputTypeError",
        c"A key, a slot array or an option has a type or dtype that is not accepted. Nothing changed.",
        PyType::new::<PyTypeError>,
    ),
    Spec::new(
        c"isoradix.StaleHandleError",
        c"A node handle outlived its node. Nothing changed.",
        PyType::new::<PyLookupError>,
    ),
    Spec::new(
        c"isoradix.ReceiptError",
        c"A lock or pin receipt was given back before, or was never given out. Nothing changed.",
        PyType::new::<PyLookupError>,
    ),
    Spec::new(
        c"isoradix.HeldError",
        c"The operation would remove tokens that are locked or pinned. Nothing changed.",
        PyType::new::<PyRuntimeError>,
    ),
    Spec::new(
        c"isoradix.OutOfSlotsError",
        c"The slot pool has fewer free slots than were asked for. Nothing changed.",
        PyType::new::<PyMemoryError>,
    ),
    Spec::new(
        c"isoradix.DoubleFreeError",
        c"A slot was given back that is free already, or twice in one call. Nothing changed.",
        PyType::new::<PyValueError>,
    ),
    Spec::new(
        c"isoradix.PolicyError",
        c"A user-defined key function raised, or returned something that is not a key. Nothing changed.",
        PyType::new::<PyRuntimeError>,
    ),
    Spec::new(
        c"isoradix.InvariantError",
        c"`check` found a broken invariant; the message names the node and the figures.",
        PyType::new::<PyAssertionError>,
    ),
    Spec::new(
        c"isoradix.ConcurrentUseError",
        c"A cache was entered again from its own key function, or used in a forked child.",
        PyType::new::<PyRuntimeError>,
    ),
    Spec::new(
        c"isoradix.ProtocolError",
        c"Bytes that are no frame or no start record, ranks that refuse to start together, or a call out of order. Nothing changed.",
        PyType::new::<PyRuntimeError>,
    ),
    Spec {
        under: Class::Protocol,
        attributes: &["edge"],
        ..Spec::new(
            c"isoradix.BackpressureError",
            c"Frames in flight, or open questions, have reached their bound. Nothing changed: make the same call again when one is through.",
            PyType::new::<PyRuntimeError>,
        )
    },
    Spec {
        attributes: &["kind", "ranks", "step", "vote"],
        ..Spec::new(
            c"isoradix.DivergenceError",
            c"Ranks do not hold the same state, or would decide from different numbers. Fatal; no queue was touched.",
            PyType::new::<PyRuntimeError>,
        )
    },
    Spec::new(
        c"isoradix.HostPoolError",
        c"The pool of host pages refuses an agreed number, or has operations open at its end.",
        PyType::new::<PyRuntimeError>,
    ),
    Spec::new(
        c"isoradix.OperationError",
        c"A load-back failed on some rank after its tokens were promised. Fatal on every rank; the message names the operation.",
        PyType::new::<PyRuntimeError>,
    ),
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
        let mut all = Vec::with_capacity(SPECS.len());
        all.push(make(py, &SPECS[Class::Isoradix as usize], None)?);
        for spec in &SPECS[1..] {
            let class = make(py, spec, Some(all[spec.under as usize].bind(py)))?;
            all.push(class);
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
    for attribute in spec.attributes {
        body.set_item(attribute, py.None())?;
    }
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
