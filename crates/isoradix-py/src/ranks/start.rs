//! The agreement of all ranks at start.

use isoradix_core::PerRank;
use isoradix_core::protocol;
use isoradix_core::protocol::Disagreement;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::bytes;
use crate::errors::{self, Class, describe};
use crate::guard::Guarded;
use crate::scalars::{self, Scalar};

type Core = protocol::StartRecord;

const RANKS: Scalar = scalars::up_to("ranks", u32::MAX as u64, "pass the number of ranks in the domain");
const CAPACITY: Scalar = scalars::up_to(
    "capacity_pages",
    scalars::HOST_PAGES_MAX,
    "pass the host pages that this rank can back, 0 if its pinning failed, None if it has no host pool",
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StartRecord>()?;
    module.add_class::<Agreement>()?;
    module.add_function(wrap_pyfunction!(agree, module)?)
}

/// What one rank brings to the agreement at start: how many host pages it can back, and settings that must be equal.
///
/// Args:
///     rank: this rank, from 0.
///     ranks: how many there are.
///     capacity_pages: host pages that this rank can back, 0 to 2**31 - 1: 0 if its pinning failed, None if it has no pool.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is not an int.
///
/// The version of isoradix is a setting of every record.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct StartRecord {
    inner: Guarded<Core>,
}

#[pymethods]
impl StartRecord {
    #[new]
    #[pyo3(signature = (rank, ranks, capacity_pages = None))]
    fn new(
        rank: &Bound<'_, PyAny>,
        ranks: &Bound<'_, PyAny>,
        capacity_pages: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (rank, ranks) = (scalars::RANK.read_u32(rank)?, RANKS.read_u32(ranks)?);
        let core = match capacity_pages {
            Some(pages) => Core::new(rank, ranks, PerRank::observe(CAPACITY.read_u32(pages)?)),
            None => Core::without_pool(rank, ranks),
        };
        Ok(Self::of(core))
    }

    /// Adds a setting that must be equal on all ranks: page size, dtype, window, policy, an environment variable.
    ///
    /// Args:
    ///     name: a str; up to 62 settings, each given once, three of them the versions.
    ///     value: a str. Any length counts; messages show the first 24 bytes.
    ///
    /// Raises:
    ///     InvalidInputError: there is a setting of that name, or no room for one more.
    ///     InputTypeError: one is no str.
    fn set(&self, py: Python<'_>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, value) = (text(name, "name")?, text(value, "value")?);
        let set = self.inner.enter(py, || false, |record| record.set(&name, &value))?;
        set.map_err(|error| refuse(py, Class::InvalidInput, &error))
    }

    /// The record as bytes, to be gathered from all ranks.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.inner.enter(py, || false, |record| record.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What `to_bytes` wrote, on this rank or another one.
    ///
    /// Raises:
    ///     ProtocolError: the bytes are no record of this version, undamaged.
    ///     InputTypeError: `data` is no bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        read(py, data).map(Self::of)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = self.inner.enter(py, || false, |record| format!("<{record:?}>"));
        shown.unwrap_or_else(|_| "<StartRecord: not usable here>".to_owned())
    }

    #[allow(clippy::unused_self)]
    fn __reduce_ex__(&self, py: Python<'_>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = protocol;
        let message = "a StartRecord cannot be copied or pickled\nhint: use to_bytes() and StartRecord.from_bytes()";
        Err(errors::input_type(py, message))
    }
}

impl StartRecord {
    fn of(core: Core) -> Self {
        Self { inner: Guarded::new("StartRecord", core) }
    }
}

fn read(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Core> {
    bytes::read(data, "data", Core::from_bytes)?.map_err(|error| refuse(py, Class::Protocol, &error))
}

fn text(given: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    let text = given.cast::<PyString>().map_err(|_| {
        let message =
            format!("{name} is {}, expected a str\nhint: settings are compared as text, e.g. str(64)", describe(given));
        errors::input_type(given.py(), message)
    })?;
    Ok(text.to_string_lossy().into_owned())
}

#[cold]
fn refuse(py: Python<'_>, class: Class, error: &Disagreement) -> PyErr {
    errors::new(py, class, error.to_string())
}

/// What all ranks agreed upon at start.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct Agreement(protocol::Agreement);

#[pymethods]
impl Agreement {
    /// Host pages: the most that every rank with a pool can back; 0 if none has a pool.
    #[getter]
    fn capacity_pages(&self) -> u32 {
        self.0.capacity_pages.get()
    }

    fn __repr__(&self) -> String {
        format!("Agreement(capacity_pages={})", self.capacity_pages())
    }
}

impl Agreement {
    /// Reads an `agreement` argument.
    pub(crate) fn read(given: &Bound<'_, PyAny>) -> PyResult<protocol::Agreement> {
        given.cast::<Self>().map(|agreement| agreement.get().0).map_err(|_| {
            let message = format!(
                "agreement is {}, expected an Agreement\n\
                 hint: pass what agree() gave for the records of all ranks; of one rank, agree([record.to_bytes()])",
                describe(given)
            );
            errors::input_type(given.py(), message)
        })
    }
}

/// Compares the records of all ranks, in the order of their ranks. Every rank calls it on the same records, and so gets the same
/// answer.
///
/// Args:
///     records: what `StartRecord.to_bytes` gave, of each rank.
///
/// Raises:
///     ProtocolError: settings differ, and then all of them are named with their ranks; or a record is missing or damaged.
///     InputTypeError: one is no bytes.
#[pyfunction]
fn agree(py: Python<'_>, records: &Bound<'_, PyAny>) -> PyResult<Agreement> {
    let iterator = records.try_iter().map_err(|cause| {
        if errors::is_not_of_input(py, &cause) {
            return cause;
        }
        let message = format!(
            "records is {}, expected a sequence of bytes\nhint: pass the to_bytes() of all ranks, in their order",
            describe(records)
        );
        errors::input_type(py, message)
    })?;
    let records = iterator.map(|data| read(py, &data?)).collect::<PyResult<Vec<Core>>>()?;
    protocol::agree(&records).map(Agreement).map_err(|error| refuse(py, Class::Protocol, &error))
}
