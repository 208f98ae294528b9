//! Journals on their way to the disk: entries gather in a block, whole blocks go to a file.
//!
//! A scheduler makes many calls a step, and each is written down before the next. So a call is one entry into this module: its
//! arguments are written where they belong, and what the cache decided is taken from the cache, without a Python object for either.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{IoSlice, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use isoradix_core::{KeyLog, NodeHandle, unpack};
use isoradix_store::checksum as of_bytes;
use numpy::PyArray1;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays;
use crate::bytes;
use crate::errors::{self, Class};
use crate::guard::Guarded;
use crate::ints::{Borrow, KEY};
use crate::namespace;
use crate::results::read_resume;
use crate::scalars::{self, Scalar};
use crate::shared::Shared;
use crate::tiered::{Machine, TieredCache};

const CALL: u8 = 3;
const DECISIONS: u8 = 4;
/// Bytes of an entry's kind and length.
const FRONT: usize = 5;
/// Blocks whose memory is used again.
const SPARE: usize = 4;
/// Bytes of a block for which there is memory from the start: a little more than those at which it is taken.
const BLOCK_BYTES: usize = 5 << 17;
/// A node that is not there.
const NONE: u64 = u64::MAX;

const NUMBER: Scalar = scalars::any("an argument", "pass what the cache has accepted");
const SLOTS: Scalar = scalars::up_to("slots", u32::MAX as u64, "pass how many slots there were");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JournalLog>()?;
    module.add_class::<JournalBlock>()?;
    module.add_class::<JournalFile>()?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_tokens, module)?)
}

/// The checksum of a journal's block.
#[pyfunction]
fn checksum(data: &Bound<'_, PyAny>) -> PyResult<u64> {
    bytes::read(data, "data", |bytes| of_bytes(bytes)[0])
}

/// Tokens of a journal's key, as a uint32 array.
///
/// Args:
///     data: the tokens, packed.
///     count: how many there are.
///     width: bits of each, 1 to 32.
///
/// Raises:
///     InvalidInputError: there are fewer bytes, or tokens have no such width.
#[pyfunction]
fn unpack_tokens<'py>(data: &Bound<'py, PyAny>, count: usize, width: usize) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let py = data.py();
    let Some(tokens) = bytes::read(data, "data", |bytes| unpack(bytes, count, width))? else {
        let what = format!("{count} tokens of {width} bits are not in these bytes\nhint: tokens have 1 to 32 bits");
        return Err(errors::new(py, Class::InvalidInput, what));
    };
    Ok(arrays::owned(py, tokens))
}

/// The entries of a journal until a block of them is taken.
///
/// Any thread may call.
#[pyclass(frozen, module = "isoradix")]
struct JournalLog {
    inner: Guarded<Log>,
}

struct Log {
    keys: KeyLog,
    block: Vec<u8>,
    /// Bytes of all entries.
    added: u64,
    spare: Spare,
    ended: bool,
}

impl Default for Log {
    fn default() -> Self {
        // Written to, so that the machine gives the memory now, and not while a scheduler waits.
        let block = || {
            let mut block = vec![u8::MAX; BLOCK_BYTES];
            block.clear();
            block
        };
        let spare = std::iter::repeat_with(block).take(SPARE).collect();
        Self { keys: KeyLog::new(secret()), block: block(), added: 0, spare: Arc::new(Mutex::new(spare)), ended: false }
    }
}

/// Another one for each log.
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Memory of blocks that are written: to get new memory for each would cost as much as to fill it.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

impl Log {
    /// Adds an entry whose bytes `write` appends.
    fn add(&mut self, kind: u8, write: impl FnOnce(&mut KeyLog, &mut Vec<u8>)) {
        if self.ended {
            return;
        }
        let begin = self.block.len();
        self.block.extend([kind, 0, 0, 0, 0]);
        write(&mut self.keys, &mut self.block);
        let length = u32::try_from(self.block.len() - begin - FRONT).expect("no call has 4 GiB of arguments");
        self.added += u64::from(length) + FRONT as u64;
        self.block[begin + 1..begin + FRONT].copy_from_slice(&length.to_le_bytes());
    }
}

#[pymethods]
impl JournalLog {
    #[new]
    fn new() -> Self {
        Self { inner: Guarded::new("JournalLog", Log::default()) }
    }

    /// Adds an entry of that kind.
    ///
    /// Returns:
    ///     Bytes in the block now.
    fn entry(&self, py: Python<'_>, kind: u8, data: &Bound<'_, PyBytes>) -> PyResult<usize> {
        let data = data.as_bytes();
        self.enter(py, |log| {
            log.add(kind, |_, block| block.extend(data));
            log.block.len()
        })
    }

    /// Adds a call that has succeeded, and what came of it.
    ///
    /// Args:
    ///     cache: whose records are taken, and whose nodes are named.
    ///     code: the verb.
    ///     forms: the form of each argument, a letter each: k key, s number of slots, n namespace, p resume point or None, a node or
    ///         None, o node, u unsigned, i signed. A key is the first.
    ///     arguments: as the cache has accepted them.
    ///
    /// Returns:
    ///     Bytes in the block now.
    ///
    /// Raises:
    ///     InvalidInputError, InputTypeError: an argument is of another form. Nothing is added.
    fn call(
        &self,
        py: Python<'_>,
        cache: &TieredCache,
        code: u8,
        forms: &str,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<usize> {
        let (mut borrow, mut key) = (Borrow::default(), None);
        let mut rest = Vec::with_capacity(64);
        if forms.len() != arguments.len() {
            return Err(refuse_form(py, forms));
        }
        for (at, (form, given)) in forms.bytes().zip(arguments.iter_borrowed()).enumerate() {
            if form == b'k' && at == 0 {
                borrow.prepare(&given, &KEY)?;
                key = Some(given);
            } else {
                append(&mut rest, form, &given, &cache.shared)?;
            }
        }
        let key = key.as_ref().map(|given| borrow.ints(given, &KEY)).transpose()?;
        let records = cache.shared.enter(py, |machine| machine.cache_mut().take_records())?;
        self.enter(py, |log| {
            log.add(CALL, |keys, block| {
                block.push(code);
                if let Some(key) = key {
                    keys.append(key, block);
                }
                block.extend(&rest);
            });
            if !records.is_empty() {
                log.add(DECISIONS, |_, block| records.iter().for_each(|record| block.extend(record.to_bytes())));
            }
            log.block.len()
        })
    }

    /// Adds what the cache has decided since it was asked last.
    fn decisions(&self, py: Python<'_>, cache: &TieredCache) -> PyResult<()> {
        let records = cache.shared.enter(py, |machine| machine.cache_mut().take_records())?;
        self.enter(py, |log| {
            if !records.is_empty() {
                log.add(DECISIONS, |_, block| records.iter().for_each(|record| block.extend(record.to_bytes())));
            }
        })
    }

    /// Takes the entries so far; None if there are none.
    fn take(&self, py: Python<'_>) -> PyResult<Option<JournalBlock>> {
        self.enter(py, |log| {
            if log.block.is_empty() {
                return None;
            }
            let next = log.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let entries = std::mem::replace(&mut log.block, next);
            Some(JournalBlock { entries, spare: Arc::clone(&log.spare) })
        })
    }

    /// Bytes of all entries so far.
    #[getter]
    fn added(&self, py: Python<'_>) -> PyResult<u64> {
        self.enter(py, |log| log.added)
    }

    /// Forgets all keys: those that follow stand by themselves.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        self.enter(py, |log| log.keys.clear())
    }

    /// Nothing is added any more.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.enter(py, |log| log.ended = true)
    }
}

impl JournalLog {
    fn enter<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Log) -> R) -> PyResult<R> {
        self.inner.enter(py, || false, work)
    }
}

/// Appends one argument that is no key.
fn append(out: &mut Vec<u8>, form: u8, given: &Bound<'_, PyAny>, cache: &Shared<Machine>) -> PyResult<()> {
    let there = (!given.is_none()).then_some(given);
    match form {
        b's' => out.extend(SLOTS.read_u32(given)?.to_le_bytes()),
        b'u' => out.extend(NUMBER.read(given)?.to_le_bytes()),
        b'i' => out.extend(given.extract::<i64>()?.to_le_bytes()),
        b'o' => out.extend(sequence(cache, given.py(), cache.mark.read_node(given)?)?.to_le_bytes()),
        b'a' => {
            let node = there.map(|node| sequence(cache, node.py(), cache.mark.read_node(node)?)).transpose()?;
            out.extend(node.unwrap_or(NONE).to_le_bytes());
        }
        b'p' => {
            let point = read_resume(there, cache.mark)?;
            let node = point.map(|point| sequence(cache, given.py(), point.node)).transpose()?;
            out.extend(node.unwrap_or(NONE).to_le_bytes());
            out.extend(point.map_or(0, |point| point.length).to_le_bytes());
        }
        b'n' => {
            let read = namespace::read(there)?;
            let parts = [read.extra_key(), read.salt()];
            out.push(u8::from(parts[0].is_some()) | u8::from(parts[1].is_some()) << 1);
            for part in parts.into_iter().flatten() {
                out.extend(u32::try_from(part.len()).expect("no text of 4 GiB").to_le_bytes());
                out.extend(part.as_bytes());
            }
        }
        _ => return Err(refuse_form(given.py(), &char::from(form).to_string())),
    }
    Ok(())
}

/// What a node is called on every rank.
fn sequence(cache: &Shared<Machine>, py: Python<'_>, node: NodeHandle) -> PyResult<u64> {
    if node == NodeHandle::ROOT {
        return Ok(0);
    }
    cache.run(py, |machine| machine.cache().cache().info(node).map(|info| info.sequence))
}

#[cold]
fn refuse_form(py: Python<'_>, forms: &str) -> PyErr {
    let what = format!("the forms {forms:?} are not those of the arguments\nhint: a letter each, and a key first");
    errors::new(py, Class::InvalidInput, what)
}

/// Entries that were taken together.
#[pyclass(frozen, module = "isoradix")]
struct JournalBlock {
    entries: Vec<u8>,
    spare: Spare,
}

impl Drop for JournalBlock {
    fn drop(&mut self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            self.entries.clear();
            spare.push(std::mem::take(&mut self.entries));
        }
    }
}

#[pymethods]
impl JournalBlock {
    fn __len__(&self) -> usize {
        self.entries.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.entries)
    }
}

/// A new file, for a segment of a journal.
///
/// Raises:
///     OSError: it is there, or cannot be made.
#[pyclass(frozen, module = "isoradix")]
struct JournalFile {
    file: File,
    path: PathBuf,
}

#[pymethods]
impl JournalFile {
    /// Args:
    ///     path: of the file.
    ///     mark: how it begins.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, mark: &[u8]) -> PyResult<Self> {
        let made = py.detach(|| File::create_new(&path).and_then(|mut file| file.write_all(mark).map(|()| file)));
        match made {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(raise(&error, path)),
        }
    }

    /// Appends a block with its length and checksum. Without the GIL: a disk may stand still.
    ///
    /// Returns:
    ///     Bytes written.
    ///
    /// Raises:
    ///     OSError: the disk refuses.
    fn write(&self, py: Python<'_>, block: &JournalBlock) -> PyResult<usize> {
        let entries = &block.entries[..];
        let write = || {
            let length = u32::try_from(entries.len()).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
            let mut front = [0; 12];
            front[..4].copy_from_slice(&length.to_le_bytes());
            front[4..].copy_from_slice(&of_bytes(entries)[0].to_le_bytes());
            let at_once = (&self.file).write_vectored(&[IoSlice::new(&front), IoSlice::new(entries)])?;
            let rest = at_once.saturating_sub(front.len());
            (&self.file).write_all(&front[at_once.min(front.len())..])?;
            (&self.file).write_all(&entries[rest..])?;
            std::io::Result::Ok(front.len() + entries.len())
        };
        py.detach(write).map_err(|error| raise(&error, self.path.clone()))
    }
}

#[cold]
fn raise(error: &std::io::Error, path: PathBuf) -> PyErr {
    let text = error.to_string();
    let what = text.split(" (os error").next().unwrap_or(&text).to_owned();
    match error.raw_os_error() {
        Some(code) => PyOSError::new_err((code, what, path)),
        None => PyOSError::new_err(what),
    }
}
