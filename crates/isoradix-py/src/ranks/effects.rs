//! What a rank's own engines do next.

use isoradix_core::{Effect, Namespace, Transfer};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arrays;
use crate::namespace::{self, Pair};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StoredRun>()?;
    module.add_class::<Query>()?;
    module.add_class::<Start>()?;
    module.add_class::<Cancel>()?;
    module.add_class::<Open>()?;
    module.add_class::<Attachment>()?;
    module.add_class::<FreeSlots>()
}

/// A run of pages as external storage knows it: by the tokens up to its end.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct StoredRun {
    name: Namespace,
    /// All tokens up to the run's end, from the start of the key: a uint32 array.
    #[pyo3(get)]
    key: Py<PyArray1<u32>>,
    /// Tokens (pairs, in bigram mode) before the run: it is what follows.
    #[pyo3(get)]
    start: u64,
}

#[pymethods]
impl StoredRun {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("namespace", "key", "start")
    }

    /// Extra key and salt of the namespace in which it lives.
    #[getter]
    fn namespace(&self) -> Pair<'_> {
        namespace::pair(&self.name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let tokens = self.key.bind(py).as_any().len()?;
        Ok(format!("StoredRun(namespace={}, key=<{tokens}>, start={})", namespace::show(&self.name), self.start))
    }
}

impl StoredRun {
    fn new(py: Python<'_>, run: isoradix_core::StoredRun) -> PyResult<Py<Self>> {
        let isoradix_core::StoredRun { namespace: name, key, from: start } = run;
        Py::new(py, Self { name, key: arrays::owned(py, key).unbind(), start })
    }
}

/// Ask external storage how much of a run it has, as a leading part, and tell `Rank.found`.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Query {
    /// The prefetch.
    #[pyo3(get)]
    operation: u64,
    /// What is asked for.
    #[pyo3(get)]
    run: Py<StoredRun>,
}

#[pymethods]
impl Query {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("operation", "run")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Query(operation={}, run={})", self.operation, self.run.get().__repr__(py)?))
    }
}

/// Begin a copy, and report it to the `Board`: `post_progress` for a prefetch, then `ended`.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct Start {
    /// The operation that the copy belongs to.
    #[pyo3(get)]
    operation: u64,
    /// From where to where: "backup" (device to host), "load_back" (host to device), "prefetch" (storage to host) or "store"
    /// (host to storage).
    #[pyo3(get)]
    kind: &'static str,
    /// Device slots, an int64 array with one a token; empty if the device takes no part.
    #[pyo3(get)]
    slots: Py<PyArray1<i64>>,
    /// Host pages, an int32 array with one a page, in the order of the tokens.
    #[pyo3(get)]
    pages: Py<PyArray1<i32>>,
    /// What storage is asked for or given, a tuple of StoredRun, part by part; empty if it takes no part.
    #[pyo3(get)]
    stored: Py<PyTuple>,
    /// What is copied beside the keys and values of each page: a uint8 array with a bit for each component of the cache, by its place. Empty
    /// where there are none; what this rank's stage has no layers of is nothing to copy.
    #[pyo3(get)]
    parts: Py<PyArray1<u8>>,
}

#[pymethods]
impl Start {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str) {
        ("operation", "kind", "slots", "pages", "stored", "parts")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { operation, kind, .. } = self;
        let (slots, pages) = (self.slots.bind(py).as_any().len()?, self.pages.bind(py).as_any().len()?);
        let stored = self.stored.bind(py).len();
        Ok(format!("Start(operation={operation}, kind='{kind}', slots=<{slots}>, pages=<{pages}>, stored=<{stored}>)"))
    }
}

impl Start {
    fn new(py: Python<'_>, transfer: Transfer) -> PyResult<Self> {
        let Transfer { operation, kind, slots, pages, stored, parts } = transfer;
        let stored = stored.into_iter().map(|run| StoredRun::new(py, run)).collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            operation: operation.0,
            kind: kind.as_str(),
            slots: arrays::owned(py, slots).unbind(),
            pages: arrays::pages(py, pages).unbind(),
            stored: PyTuple::new(py, stored)?.unbind(),
            parts: arrays::owned(py, parts).unbind(),
        })
    }
}

/// Stop a copy, if it was begun; then, or once it is off its slots and pages, call `Board.finish`.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Cancel {
    /// The operation.
    #[pyo3(get)]
    operation: u64,
}

#[pymethods]
impl Cancel {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("operation",)
    }

    fn __repr__(&self) -> String {
        format!("Cancel(operation={})", self.operation)
    }
}

/// Open external storage, and tell the `Board` whether that went well: `ended`. It is not used before `Attachment("attached")`.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Open {
    /// The operation.
    #[pyo3(get)]
    operation: u64,
}

#[pymethods]
impl Open {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("operation",)
    }

    fn __repr__(&self) -> String {
        format!("Open(operation={})", self.operation)
    }
}

/// What has become of external storage, on every rank at this step: "attached", it is used from here on; "refused", some rank could
/// not open it, or it is not wanted any more; "detached", nothing of it is under way any more. After the last two, close it.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Attachment {
    /// What has become of it.
    #[pyo3(get)]
    state: &'static str,
}

#[pymethods]
impl Attachment {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("state",)
    }

    fn __repr__(&self) -> String {
        format!("Attachment(state={:?})", self.state)
    }
}

/// Device slots that copies kept back when the cache was reset: free them in the device's pool, at this step.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct FreeSlots {
    /// An int64 array.
    #[pyo3(get)]
    slots: Py<PyArray1<i64>>,
}

#[pymethods]
impl FreeSlots {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("slots",)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("FreeSlots(slots=<{}>)", self.slots.bind(py).as_any().len()?))
    }
}

/// The Python objects for effects of the core, in order.
pub(super) fn to_python(py: Python<'_>, effects: Vec<Effect>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for effect in effects {
        match effect {
            Effect::Query { operation, run } => {
                list.append(Query { operation: operation.0, run: StoredRun::new(py, run)? })?;
            }
            Effect::Start(transfer) => list.append(Start::new(py, transfer)?)?,
            Effect::Cancel { operation } => list.append(Cancel { operation: operation.0 })?,
            Effect::Open { operation } => list.append(Open { operation: operation.0 })?,
            Effect::Attached => list.append(Attachment { state: "attached" })?,
            Effect::Refused => list.append(Attachment { state: "refused" })?,
            Effect::Detached => list.append(Attachment { state: "detached" })?,
            Effect::FreeSlots(slots) => list.append(FreeSlots { slots: arrays::owned(py, slots).unbind() })?,
        }
    }
    Ok(list)
}
