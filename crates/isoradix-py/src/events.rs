//! KV events, in the shape that consumers of vLLM's and SGLang's events expect.
//!
//! There an event is a map that is tagged with its class under `type` and leaves out optional fields that are not set.

use isoradix_core::{KvEvent, Namespace, Tier};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Class};

/// A tier as these consumers name it.
fn medium(tier: Tier) -> &'static str {
    match tier {
        Tier::Device => "GPU",
        Tier::Host => "CPU_PINNED",
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BlockStored>()?;
    module.add_class::<BlockRemoved>()?;
    module.add_class::<AllBlocksCleared>()
}

/// Blocks that are in a tier from now on: a run of pages under one parent.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct BlockStored {
    /// Hash of each page: the first 8 bytes, as a big-endian signed integer, of its chained SHA-256.
    #[pyo3(get)]
    block_hashes: Vec<i64>,
    /// Hash of the page before the first one; None at the start of a sequence.
    #[pyo3(get)]
    parent_block_hash: Option<i64>,
    /// Tokens of all the pages, in order.
    #[pyo3(get)]
    token_ids: Vec<u32>,
    /// Tokens in a page.
    #[pyo3(get)]
    block_size: u32,
    /// Where the blocks lie: "GPU" on the device, "`CPU_PINNED`" on host.
    #[pyo3(get)]
    medium: &'static str,
    namespace: Namespace,
}

#[pymethods]
impl BlockStored {
    /// Always None; consumers that know adapters by number read `lora_name` instead.
    #[getter]
    #[allow(clippy::unused_self)] // a property needs it
    fn lora_id(&self) -> Option<u64> {
        None
    }

    /// Salt of the namespace.
    #[getter]
    fn cache_salt(&self) -> Option<&str> {
        self.namespace.salt()
    }

    /// Extra key of the namespace: the name of the LoRA adapter, where namespaces are used for these.
    #[getter]
    fn lora_name(&self) -> Option<&str> {
        self.namespace.extra_key()
    }

    /// The event as a map for msgpack or JSON, tagged "BlockStored" under "type".
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let map = tagged(py, "BlockStored")?;
        map.set_item("block_hashes", &self.block_hashes)?;
        map.set_item("parent_block_hash", self.parent_block_hash)?;
        map.set_item("token_ids", &self.token_ids)?;
        map.set_item("block_size", self.block_size)?;
        map.set_item("lora_id", self.lora_id())?;
        map.set_item("medium", self.medium)?;
        if let Some(salt) = self.cache_salt() {
            map.set_item("cache_salt", salt)?;
        }
        if let Some(name) = self.lora_name() {
            map.set_item("lora_name", name)?;
        }
        Ok(map)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        show(&self.as_dict(py)?)
    }
}

/// Blocks that are no longer in a tier.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct BlockRemoved {
    /// Hash of each page, as in the `BlockStored` that announced it.
    #[pyo3(get)]
    block_hashes: Vec<i64>,
    /// Where the blocks lay: "GPU" on the device, "`CPU_PINNED`" on host.
    #[pyo3(get)]
    medium: &'static str,
}

#[pymethods]
impl BlockRemoved {
    /// The event as a map for msgpack or JSON, tagged "BlockRemoved" under "type".
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let map = tagged(py, "BlockRemoved")?;
        map.set_item("block_hashes", &self.block_hashes)?;
        map.set_item("medium", self.medium)?;
        Ok(map)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        show(&self.as_dict(py)?)
    }
}

/// No block is cached any more, as far as the listener knows: the cache was reset, or more events were waiting than are
/// kept. In that case all that is cached is announced anew right behind.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct AllBlocksCleared;

#[pymethods]
impl AllBlocksCleared {
    /// The event as a map for msgpack or JSON, tagged "AllBlocksCleared" under "type".
    #[allow(clippy::unused_self)]
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        tagged(py, "AllBlocksCleared")
    }

    #[allow(clippy::unused_self)]
    fn __repr__(&self) -> &'static str {
        "AllBlocksCleared()"
    }
}

fn tagged<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyDict>> {
    let map = PyDict::new(py);
    map.set_item("type", kind)?;
    Ok(map)
}

/// `Kind(field=value, ...)` of a tagged map.
fn show(map: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut kind = String::new();
    let mut fields = Vec::new();
    for (name, value) in map {
        if kind.is_empty() {
            kind = value.to_string();
        } else {
            fields.push(format!("{name}={}", value.repr()?));
        }
    }
    Ok(format!("{kind}({})", fields.join(", ")))
}

/// The Python object for an event of the core.
pub(crate) fn to_python(py: Python<'_>, event: KvEvent) -> PyResult<Bound<'_, PyAny>> {
    Ok(match event {
        KvEvent::Stored { tier, block_hashes, parent: parent_block_hash, token_ids, block_size, namespace } => {
            let medium = medium(tier);
            let stored = BlockStored { block_hashes, parent_block_hash, token_ids, block_size, medium, namespace };
            Bound::new(py, stored)?.into_any()
        }
        KvEvent::Removed { tier, block_hashes } => {
            Bound::new(py, BlockRemoved { block_hashes, medium: medium(tier) })?.into_any()
        }
        KvEvent::Cleared => Bound::new(py, AllBlocksCleared)?.into_any(),
        // The core may learn new kinds before this binding does.
        other => return Err(errors::new(py, Class::Isoradix, format!("unknown KV event: {other:?}"))),
    })
}
