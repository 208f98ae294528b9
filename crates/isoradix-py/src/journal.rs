//! Records of the journal.

use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Record>()
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

impl From<&isoradix_core::Record> for Record {
    fn from(record: &isoradix_core::Record) -> Self {
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
