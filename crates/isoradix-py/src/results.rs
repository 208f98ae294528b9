//! What `match_prefix` and `insert` answer, and reading such an answer back as a resume point.

use isoradix_core::{Insert, Match, Resume};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{self, describe};
use crate::handles::{Handle, Mark};
use crate::scalars;
use crate::tiered::TieredMatchResult;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MatchResult>()?;
    module.add_class::<InsertResult>()
}

/// What `match_prefix` found.
///
/// Pass it as `resume=` to a later `match_prefix` or `insert` of a longer key, which then compares the tail only.
#[pyclass(frozen, eq, hash, module = "isoradix")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct MatchResult {
    /// Length of the longest cached prefix, in tokens (pairs, in bigram mode); a multiple of the page size.
    #[pyo3(get)]
    hit_tokens: u64,
    /// Handle of the node where that prefix ends; `cache.root` if nothing matched.
    #[pyo3(get)]
    node: Handle,
}

#[pymethods]
impl MatchResult {
    /// Depth of `node`, in tokens: equal to `hit_tokens`. With `node` it makes a resume point.
    #[getter]
    fn length(&self) -> u64 {
        self.hit_tokens
    }

    fn __repr__(&self) -> String {
        format!("MatchResult(hit_tokens={}, node={:#x})", self.hit_tokens, self.node.to_bits())
    }
}

impl MatchResult {
    #[inline]
    pub(crate) fn new(found: Match, mark: Mark) -> Self {
        Self { hit_tokens: found.hit_tokens, node: mark.handle(found.node) }
    }
}

/// What `insert` did.
///
/// Pass it as `resume=` to a later `match_prefix` or `insert` of a longer key, which then compares the tail only.
#[pyclass(frozen, eq, hash, module = "isoradix")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct InsertResult {
    /// Tokens that were cached before. The caller still owns the slots given for them, and frees the duplicates.
    #[pyo3(get)]
    prefix_len: u64,
    /// Tokens that were added. The cache owns their slots now, until `evict` or `remove_namespace` returns them.
    #[pyo3(get)]
    new_tokens: u64,
    /// Handle of the node where the key ends.
    #[pyo3(get)]
    node: Handle,
    /// Depth of `node`, in tokens: the length of the key, cut down to whole pages.
    #[pyo3(get)]
    length: u64,
}

#[pymethods]
impl InsertResult {
    fn __repr__(&self) -> String {
        let Self { prefix_len, new_tokens, length, .. } = self;
        let node = self.node.to_bits();
        format!("InsertResult(prefix_len={prefix_len}, new_tokens={new_tokens}, node={node:#x}, length={length})")
    }
}

impl InsertResult {
    #[inline]
    pub(crate) fn new(done: Insert, mark: Mark) -> Self {
        let Insert { prefix_len, new_tokens, node, length } = done;
        Self { prefix_len, new_tokens, node: mark.handle(node), length }
    }
}

/// Reads a `resume` argument: a result of an earlier call, or its (node, length).
#[inline]
pub(crate) fn read_resume(given: Option<&Bound<'_, PyAny>>, mark: Mark) -> PyResult<Option<Resume>> {
    given.map(|given| read_point(given, mark)).transpose()
}

fn read_point(given: &Bound<'_, PyAny>, mark: Mark) -> PyResult<Resume> {
    if let Ok(found) = given.cast::<MatchResult>() {
        let found = found.get();
        return Ok(Resume { node: mark.take(found.node), length: found.hit_tokens });
    }
    if let Ok(done) = given.cast::<InsertResult>() {
        let done = done.get();
        return Ok(Resume { node: mark.take(done.node), length: done.length });
    }
    if let Ok(found) = given.cast::<TieredMatchResult>() {
        return Ok(found.get().on_device(mark));
    }
    let pair = given.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2).ok_or_else(|| {
        errors::input_type(
            given.py(),
            format!(
                "resume is {}, expected a MatchResult, an InsertResult or a pair (node, length)\n\
                 hint: pass the result of an earlier match_prefix or insert of a prefix of this key",
                describe(given)
            ),
        )
    })?;
    Ok(Resume { node: mark.read_node(&pair.get_item(0)?)?, length: scalars::RESUME_LENGTH.read(&pair.get_item(1)?)? })
}
