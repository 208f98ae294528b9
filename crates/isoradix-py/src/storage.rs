//! Storage: calls under way, the store of files, seals for engines that check nothing, hashes of pages.

#![expect(clippy::needless_pass_by_value, reason = "as PyO3 hands paths and keys over")]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use isoradix_core::{Ints, PageHash, page_hashes as hash_pages};
use isoradix_store::{Call, FileStore as Store, Layout, Options, PageMut, PageRef, SEAL_BYTES, Status, StoreError};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, Class, describe};
use crate::ints::{Borrow, KEY, OFFSETS};
use crate::scalars::{self, Scalar};

const PAGES: Scalar = scalars::up_to("pages", 1 << 24, "pass the pages of one call");
const PAGE: Scalar = scalars::up_to("page", 1 << 24, "pages of a call are counted from 0");
const PIECES: Scalar = scalars::within("pieces", 1, 1 << 24, "pass the pieces of a page");
const PIECE_BYTES: Scalar = scalars::up_to("piece_bytes", 1 << 40, "pass the bytes of a piece");
const LIMIT: Scalar = scalars::within("limit", 1, 1 << 60, "pass the bytes that pages may take on the disk, or None");
const THREADS: Scalar = scalars::within("threads", 1, 256, "pass a number of threads, or None");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StorageCall>()?;
    module.add_class::<FileStore>()?;
    module.add_function(wrap_pyfunction!(page_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(seal_pages, module)?)?;
    module.add_function(wrap_pyfunction!(check_pages, module)?)
}

/// A call to a storage engine: what has become of its pages so far, and whether anybody still waits for it.
///
/// Any thread may use it. A status is a number: 0 pending, 1 done, 2 missing, 3 corrupt, 4 another size, 5 full, 6 failed, 7 too large,
/// 8 late.
#[pyclass(frozen, module = "isoradix")]
struct StorageCall {
    call: Arc<Call>,
}

#[pymethods]
impl StorageCall {
    #[new]
    fn new(pages: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { call: Arc::new(Call::new(PAGES.read_u32(pages)? as usize)) })
    }

    /// Tell what became of a page.
    fn finish(&self, py: Python<'_>, page: &Bound<'_, PyAny>, status: u8) -> PyResult<()> {
        let page = PAGE.read_u32(page)? as usize;
        let Some(status) = Status::of(status).filter(|_| page < self.call.pages()) else {
            let message = format!(
                "page {page} with status {status}; the call has {} pages, and statuses are 0 to 8\nhint: pass a Status",
                self.call.pages()
            );
            return Err(errors::new(py, Class::InvalidInput, message));
        };
        self.call.finish(page, status);
        Ok(())
    }

    /// Nobody waits any more: the engine stops as soon as it can.
    fn cancel(&self) {
        self.call.cancel();
    }

    /// Whether it was given up.
    #[getter]
    fn cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    /// What has become of each page so far: a byte each.
    #[getter]
    fn statuses<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.call.codes())
    }

    /// Why the first page failed that did, as the file store says.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.call.failure()
    }
}

/// Pages in a folder, each in a file of its own with a seal behind it. Any thread may call, any process may use the same folder.
///
/// Args:
///     root: the folder, which is made if it is not there.
///     raw: files as SGLang's file store has them, without a seal: what is read cannot be checked.
///     limit: bytes that the pages may take on the disk; what was used longest ago goes first. All processes of a folder give the same.
///     direct: around the system's cache, where the file system can.
///     threads: of a batch; as many as there are processors, up to four, if None.
///
/// Raises:
///     OSError: the system refuses the folder.
///     InvalidInputError: the options do not go together.
#[pyclass(frozen, module = "isoradix")]
struct FileStore {
    store: Store,
}

#[pymethods]
impl FileStore {
    #[new]
    #[pyo3(signature = (root, *, raw=false, limit=None, direct=false, threads=None))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        raw: bool,
        limit: Option<&Bound<'_, PyAny>>,
        direct: bool,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = Options {
            layout: if raw { Layout::Raw } else { Layout::Sealed },
            limit: limit.map(|limit| LIMIT.read(limit)).transpose()?,
            direct,
            threads: threads
                .map(|threads| THREADS.read_u32(threads))
                .transpose()?
                .and_then(|threads| NonZeroUsize::new(threads as usize)),
        };
        let store = py.detach(|| Store::open(&root, options)).map_err(|error| raise(py, &error))?;
        Ok(Self { store })
    }

    /// Whether reads and writes go around the system's cache.
    #[getter]
    fn direct(&self) -> bool {
        self.store.is_direct()
    }

    /// Pages that this object has evicted.
    #[getter]
    fn evicted(&self) -> u64 {
        self.store.evicted()
    }

    /// Pages there are, and their bytes on the disk.
    fn usage(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let usage = py.detach(|| self.store.usage()).map_err(|error| raise(py, &error))?;
        Ok((usage.pages, usage.bytes))
    }

    /// Whether there is a file for each key; what is in it is not looked at.
    fn exists(&self, py: Python<'_>, keys: Vec<Bound<'_, PyBytes>>) -> PyResult<Vec<bool>> {
        let keys = bytes_of(&keys);
        py.detach(|| self.store.exists(&keys)).map_err(|error| raise(py, &error))
    }

    /// Read pages, without the GIL. Of a page that is not done the bytes are undefined.
    ///
    /// Args:
    ///     keys: one for each page.
    ///     memory: a writable buffer of uint8, one-dimensional.
    ///     offsets: where each piece of each page begins in it.
    ///     pieces: of a page.
    ///     piece_bytes: of a piece.
    ///     call: told of each page.
    ///
    /// Raises:
    ///     InvalidInputError: a piece is not in the memory, or two share bytes; a key is none of this store. Nothing was done.
    #[expect(clippy::too_many_arguments, reason = "where pages lie takes four")]
    fn get(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyBytes>>,
        memory: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        pieces: &Bound<'_, PyAny>,
        piece_bytes: &Bound<'_, PyAny>,
        call: &StorageCall,
    ) -> PyResult<()> {
        let memory = Memory::take(memory, true)?;
        let places = memory.places(offsets, pieces, piece_bytes)?;
        let (keys, pages) = (bytes_of(&keys), places.pages_mut(py)?);
        py.detach(|| self.store.get(&keys, pages, &call.call)).map_err(|error| raise(py, &error))
    }

    /// Publish pages, without the GIL; one that is there already is only used. Arguments and errors as of `get`.
    #[expect(clippy::too_many_arguments, reason = "where pages lie takes four")]
    fn put(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyBytes>>,
        memory: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        pieces: &Bound<'_, PyAny>,
        piece_bytes: &Bound<'_, PyAny>,
        call: &StorageCall,
    ) -> PyResult<()> {
        let memory = Memory::take(memory, false)?;
        let places = memory.places(offsets, pieces, piece_bytes)?;
        let (keys, pages) = (bytes_of(&keys), places.pages());
        py.detach(|| self.store.put(&keys, &pages, &call.call)).map_err(|error| raise(py, &error))
    }

    /// Remove pages; one that is not there is no error.
    fn remove(&self, py: Python<'_>, keys: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let keys = bytes_of(&keys);
        py.detach(|| self.store.remove(&keys)).map_err(|error| raise(py, &error))
    }

    /// Remove all pages.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.clear()).map_err(|error| raise(py, &error))
    }
}

/// Chained SHA-256 hashes of a key's whole pages: each names all tokens up to its end.
///
/// Args:
///     tokens: the key.
///     page_size: tokens of a page (pairs in bigram mode), 1 to 1024.
///     bigram: whether a unit is a pair of neighbouring tokens.
///     previous: the hash that the first page is chained to: a seed, or the last one of the part before; 32 bytes, or None.
///
/// Raises:
///     InvalidInputError: a token or the page size is out of range, or `previous` is not 32 bytes long.
///     InputTypeError: an argument has the wrong type.
#[pyfunction]
#[pyo3(signature = (tokens, page_size, *, bigram=false, previous=None))]
fn page_hashes<'py>(
    py: Python<'py>,
    tokens: &Bound<'py, PyAny>,
    page_size: &Bound<'py, PyAny>,
    bigram: bool,
    previous: Option<&Bound<'py, PyBytes>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let page_size = scalars::PAGE_SIZE.read_u32(page_size)?;
    let previous: Option<&PageHash> = match previous {
        None => None,
        Some(given) => Some(given.as_bytes().try_into().map_err(|_| {
            let message =
                format!("previous has {} bytes, expected 32\nhint: pass the hash itself", given.as_bytes().len());
            errors::new(py, Class::InvalidInput, message)
        })?),
    };
    let mut borrow = Borrow::default();
    let tokens = borrow.read(tokens, &KEY)?;
    let hashes = hash_pages(tokens, page_size, bigram, previous).map_err(|error| errors::from_core(py, &error))?;
    Ok(hashes.iter().map(|hash| PyBytes::new(py, hash)).collect())
}

/// The seals of pages, one after another: 32 bytes each, which fit only these bytes under this key. Without the GIL.
///
/// Arguments and errors as of `FileStore.get`, without a call.
#[pyfunction]
fn seal_pages<'py>(
    py: Python<'py>,
    keys: Vec<Bound<'py, PyBytes>>,
    memory: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    pieces: &Bound<'py, PyAny>,
    piece_bytes: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let memory = Memory::take(memory, false)?;
    let places = memory.places(offsets, pieces, piece_bytes)?;
    let keys = bytes_of(&keys);
    places.fit(py, keys.len(), "keys")?;
    Ok(PyBytes::new(py, py.detach(|| places.seals(&keys)).as_flattened()))
}

/// Check pages against the seals that came with them; a status for each, done or corrupt. Without the GIL.
///
/// Args:
///     keys, memory, offsets, pieces, piece_bytes: as of `FileStore.get`.
///     seals: those that came with the pages, 32 bytes each.
///
/// Raises:
///     InvalidInputError: as of `FileStore.get`, or there is not a seal for each page.
#[pyfunction]
fn check_pages<'py>(
    py: Python<'py>,
    keys: Vec<Bound<'py, PyBytes>>,
    memory: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    pieces: &Bound<'py, PyAny>,
    piece_bytes: &Bound<'py, PyAny>,
    seals: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let memory = Memory::take(memory, false)?;
    let places = memory.places(offsets, pieces, piece_bytes)?;
    let keys = bytes_of(&keys);
    places.fit(py, keys.len(), "keys")?;
    let seals = crate::bytes::read(seals, "seals", <[u8]>::to_vec)?;
    let (seals, rest) = seals.as_chunks::<SEAL_BYTES>();
    places.fit(py, if rest.is_empty() { seals.len() } else { usize::MAX }, "seals of 32 bytes")?;
    let right = py.detach(|| places.seals(&keys));
    let status = |(right, found)| if right == found { Status::Done } else { Status::Corrupt };
    let statuses: Vec<u8> = right.iter().zip(seals).map(|pair| status(pair) as u8).collect();
    Ok(PyBytes::new(py, &statuses))
}

fn bytes_of<'a>(keys: &'a [Bound<'_, PyBytes>]) -> Vec<&'a [u8]> {
    keys.iter().map(PyBytesMethods::as_bytes).collect()
}

#[cold]
fn raise(py: Python<'_>, error: &StoreError) -> PyErr {
    match error {
        StoreError::Io { source, path, .. } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, error.to_string(), path.clone())),
            None => PyOSError::new_err(error.to_string()),
        },
        _ => errors::new(py, Class::InvalidInput, error.to_string()),
    }
}

/// The memory that pages lie in, which is held in place until this is dropped.
struct Memory {
    buffer: PyBuffer<u8>,
}

impl Memory {
    fn take(given: &Bound<'_, PyAny>, written: bool) -> PyResult<Self> {
        let py = given.py();
        let refuse = |cause: Option<PyErr>| {
            if let Some(cause) = cause.as_ref().filter(|cause| errors::is_not_of_input(py, cause)) {
                return cause.clone_ref(py);
            }
            let writable = if written { "writable " } else { "" };
            let message = format!(
                "memory is {}; accepted is a {writable}buffer of uint8 with one dimension and without gaps\n\
                 hint: pass a bytearray, or pool.memory.numpy() of a HostPool",
                describe(given)
            );
            let error = errors::input_type(py, message);
            error.set_cause(py, cause);
            error
        };
        let buffer = PyBuffer::<u8>::get(given).map_err(|cause| refuse(Some(cause)))?;
        let plain = buffer.dimensions() == 1 && buffer.is_c_contiguous() && !(written && buffer.readonly());
        if plain { Ok(Self { buffer }) } else { Err(refuse(None)) }
    }

    /// Where the pieces of pages begin, each checked to be in the memory.
    fn places(
        &self,
        offsets: &Bound<'_, PyAny>,
        pieces: &Bound<'_, PyAny>,
        piece_bytes: &Bound<'_, PyAny>,
    ) -> PyResult<Places<'_>> {
        let py = offsets.py();
        let pieces = PIECES.read_u32(pieces)? as usize;
        let given = PIECE_BYTES.read(piece_bytes)?;
        let invalid = |message: String| errors::new(py, Class::InvalidInput, message);
        let bytes = usize::try_from(given).map_err(|_| invalid(format!("piece_bytes is {given}\nhint: use less")))?;
        let mut borrow = Borrow::default();
        let starts: Vec<i64> = match borrow.read(offsets, &OFFSETS)? {
            Ints::I32(values) => values.iter().map(|value| i64::from(*value)).collect(),
            Ints::U32(values) => values.iter().map(|value| i64::from(*value)).collect(),
            Ints::I64(values) => values.to_vec(),
        };
        if !starts.len().is_multiple_of(pieces) {
            let message =
                format!("{} offsets for pages of {pieces} pieces\nhint: give one for each piece", starts.len());
            return Err(invalid(message));
        }
        let size = self.buffer.item_count();
        let inside = |start: &i64| usize::try_from(*start).is_ok_and(|start| start <= size && bytes <= size - start);
        if let Some(index) = starts.iter().position(|start| !inside(start)) {
            let message = format!(
                "{bytes} bytes from offset {} on, at index {index} of offsets, are not in a memory of {size} bytes\n\
                 hint: offsets are counted in bytes from the beginning of the memory",
                starts[index]
            );
            return Err(invalid(message));
        }
        let starts = starts.into_iter().map(|start| usize::try_from(start).expect("checked above")).collect();
        Ok(Places { memory: self, starts, pieces, bytes })
    }
}

/// The pieces of pages in a memory.
struct Places<'a> {
    memory: &'a Memory,
    starts: Vec<usize>,
    pieces: usize,
    bytes: usize,
}

impl<'a> Places<'a> {
    fn len(&self) -> usize {
        self.starts.len() / self.pieces
    }

    fn fit(&self, py: Python<'_>, given: usize, what: &str) -> PyResult<()> {
        if given == self.len() {
            return Ok(());
        }
        let given = if given == usize::MAX { "another number of".to_owned() } else { given.to_string() };
        let message = format!("{given} {what} for {} pages\nhint: give one for each page", self.len());
        Err(errors::new(py, Class::InvalidInput, message))
    }

    fn pages(&self) -> Vec<PageRef<'a>> {
        self.starts
            .chunks(self.pieces)
            .map(|starts| PageRef::new(starts.iter().map(|start| self.piece(*start)).collect()))
            .collect()
    }

    fn piece(&self, start: usize) -> &'a [u8] {
        // SAFETY: inside of the memory, as `places` has checked, and held as long. Another thread that writes these bytes meanwhile makes
        // the outcome depend on its timing, and the seal unfit, as with numpy's own functions.
        unsafe { std::slice::from_raw_parts(self.memory.buffer.buf_ptr().cast::<u8>().add(start), self.bytes) }
    }

    /// Pages to be written, if no byte is in two of their pieces.
    fn pages_mut(&self, py: Python<'_>) -> PyResult<Vec<PageMut<'a>>> {
        let mut sorted = self.starts.clone();
        sorted.sort_unstable();
        let mut neighbours = sorted.iter().zip(&sorted[sorted.len().min(1)..]);
        if let Some((first, second)) = neighbours.find(|(first, second)| *second - *first < self.bytes) {
            let message = format!(
                "pieces of {} bytes at offsets {} and {} share bytes\nhint: read each page to a place of its own",
                self.bytes, first, second
            );
            return Err(errors::new(py, Class::InvalidInput, message));
        }
        let page = |starts: &[usize]| PageMut::new(starts.iter().map(|start| self.piece_mut(*start)).collect());
        Ok(self.starts.chunks(self.pieces).map(page).collect())
    }

    fn piece_mut(&self, start: usize) -> &'a mut [u8] {
        // SAFETY: as above; the memory is writable, and `pages_mut` has checked that no two pieces share bytes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.buffer.buf_ptr().cast::<u8>().add(start), self.bytes) }
    }

    fn seals(&self, keys: &[&[u8]]) -> Vec<[u8; SEAL_BYTES]> {
        let page = |starts: &[usize]| PageRef::new(starts.iter().map(|start| self.piece(*start)).collect());
        isoradix_store::seals(keys, &self.starts.chunks(self.pieces).map(page).collect::<Vec<_>>())
    }
}
