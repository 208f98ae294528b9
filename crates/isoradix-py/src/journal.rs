//! Records of the journal.

use isoradix_core::Record as Core;
use pyo3::prelude::*;

use crate::bytes;
use crate::errors::{self, Class};

/// Bytes of a record.
const RECORD_BYTES: usize = 64;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Record>()?;
    module.add_function(wrap_pyfunction!(read_records, module)?)
}

/// Records as bytes, one after the other.
pub(crate) fn to_bytes(records: &[Core]) -> Vec<u8> {
    records.iter().flat_map(Core::to_bytes).collect()
}

/// The decisions that these bytes are, as `journal_bytes` writes them.
///
/// Raises:
///     InvalidInputError: they are no whole records, or one is of a kind that this release does not know.
///     InputTypeError: `records` is no bytes.
#[pyfunction]
fn read_records(records: &Bound<'_, PyAny>) -> PyResult<Vec<Record>> {
    let refuse = |message: String| errors::new(records.py(), Class::InvalidInput, message);
    bytes::read(records, "records", |bytes| {
        let (whole, rest) = bytes.as_chunks::<RECORD_BYTES>();
        if !rest.is_empty() {
            let message = format!(
                "records has {} bytes, expected a multiple of {RECORD_BYTES}\nhint: pass what journal_bytes gave",
                bytes.len()
            );
            return Err(refuse(message));
        }
        let read = |(at, record): (usize, &[u8; RECORD_BYTES])| {
            let unknown = || {
                let message = format!(
                    "record {at} is of kind {}, which is not known\nhint: read it with the release that wrote it",
                    record[16]
                );
                refuse(message)
            };
            Core::from_bytes(record).as_ref().map(Record::from).ok_or_else(unknown)
        };
        whole.iter().enumerate().map(read).collect()
    })?
}

/// One decision, as the journal keeps it. `journal_bytes` writes each as 64 bytes, little-endian.
#[pyclass(frozen, eq, hash, module = "isoradix")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Step of the clock.
    #[pyo3(get)]
    step: u64,
    /// Running number of the decision's event.
    #[pyo3(get)]
    seq: u64,
    /// What was decided, e.g. `"insert"` or `"evict"`.
    #[pyo3(get)]
    kind: &'static str,
    /// Tokens (units, in bigram mode) above the resume point of a resumed match or insert, else 0.
    #[pyo3(get)]
    resumed: u64,
    /// Sequence number of the node concerned.
    #[pyo3(get)]
    node: u64,
    /// First figure; its meaning depends on `kind`.
    #[pyo3(get)]
    a: u64,
    /// Second figure; its meaning depends on `kind`.
    #[pyo3(get)]
    b: u64,
    /// Hash of the tokens concerned.
    #[pyo3(get)]
    content: u64,
    /// The decision digest after this record.
    #[pyo3(get)]
    digest: u64,
}

#[pymethods]
impl Record {
    fn __repr__(&self) -> String {
        let Self { step, seq, kind, resumed, node, a, b, content, digest } = self;
        format!(
            "Record(step={step}, seq={seq}, kind='{kind}', resumed={resumed}, node={node}, a={a}, b={b}, \
             content={content:#018x}, digest={digest:#018x})"
        )
    }
}

impl From<&Core> for Record {
    fn from(record: &Core) -> Self {
        Self {
            step: record.step,
            seq: record.seq,
            kind: record.kind.as_str(),
            resumed: record.resumed,
            node: record.node,
            a: record.a,
            b: record.b,
            content: record.content,
            digest: record.digest,
        }
    }
}
