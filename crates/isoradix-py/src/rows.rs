//! KV bytes from rows of one memory to rows of another.
//!
//! A side of a copy is a list of rows, read as one stream of bytes; neighbours in the list that are neighbours in memory are one run.
//! The two streams are laid over each other, so a page of 64 tokens may go to 64 rows of one token. Cost: O(rows) to plan, once for
//! all pairs of buffers, then one `memcpy` for each run, without the GIL.

use isoradix_core::Ints;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::errors::{self, Class, describe};
use crate::ints::{Borrow, DESTINATION_ROWS, Role, SOURCE_ROWS};
use crate::progress::CopyProgress;
use crate::stream;

/// A copy of fewer bytes is over before another thread could use the GIL.
const LONG_BYTES: usize = 1 << 16;

/// A copy of as many bytes would push all else out of a core's own cache, and itself too: it goes around it.
const STREAMED_BYTES: usize = 4 << 20;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(copy_rows, module)?)
}

/// Copies rows of each source to rows of the destination at the same place of the list.
///
/// The bytes of the source rows, one after another in the order given, become those of the destination rows. The rows of the two sides
/// may differ in size, if all of them together have the same number of bytes. Without the GIL from 64 KiB on; everything is checked
/// before the first byte is written.
///
/// Args:
///     destinations: writable buffers of uint8 with shape [rows, bytes of a row], equal in shape and strides; rows may lie apart, but
///         the bytes of a row follow each other.
///     sources: as many such buffers, which may be read-only.
///     destination_rows: row numbers, one-dimensional; of a row given twice the later bytes stay.
///     source_rows: likewise.
///     progress: told of each pair of buffers that is copied, in the order of the lists; it may stop the copy before the next.
///
/// Returns:
///     How many runs were copied in each pair of buffers: neighbouring rows are one run.
///
/// Raises:
///     InvalidInputError: a row is not in its buffer, the sides differ in bytes or in number, buffers of one side differ in shape, or
///         a source shares memory with its destination. Nothing is copied.
///     InputTypeError: a buffer or an index array has a type, dtype or layout that is not accepted. Nothing is copied.
#[pyfunction]
#[pyo3(signature = (destinations, sources, destination_rows, source_rows, *, progress = None))]
fn copy_rows(
    py: Python<'_>,
    destinations: &Bound<'_, PyAny>,
    sources: &Bound<'_, PyAny>,
    destination_rows: &Bound<'_, PyAny>,
    source_rows: &Bound<'_, PyAny>,
    progress: Option<&Bound<'_, CopyProgress>>,
) -> PyResult<usize> {
    let (mut to_rows, mut from_rows) = (Borrow::default(), Borrow::default());
    to_rows.prepare(destination_rows, &DESTINATION_ROWS)?;
    from_rows.prepare(source_rows, &SOURCE_ROWS)?;
    let to = Side::take(destinations, "destinations", true)?;
    let from = Side::take(sources, "sources", false)?;
    // From here on no Python code runs, so nobody moves or changes what is borrowed.
    pair(py, &to, &from)?;
    let to_runs = runs(py, to_rows.ints(destination_rows, &DESTINATION_ROWS)?, &DESTINATION_ROWS, to.shape)?;
    let from_runs = runs(py, from_rows.ints(source_rows, &SOURCE_ROWS)?, &SOURCE_ROWS, from.shape)?;
    same_bytes(py, &to_runs, &from_runs)?;
    let pieces = overlay(to_runs, from_runs);
    let bases: Vec<Bases> = to.bases().zip(from.bases()).map(|(to, from)| Bases { to, from }).collect();
    let bytes = pieces.iter().map(|piece| piece.bytes).sum::<usize>().saturating_mul(bases.len());
    let progress = progress.map(Bound::get);
    let copy = || {
        if progress.is_some_and(CopyProgress::is_stopped) {
            return;
        }
        for bases in &bases {
            bases.copy(&pieces, bytes >= STREAMED_BYTES);
            if progress.is_some_and(|progress| !progress.advance()) {
                return;
            }
        }
    };
    if bytes < LONG_BYTES {
        copy();
    } else {
        py.detach(copy);
    }
    Ok(pieces.len())
}

/// How rows lie in a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: usize,
    /// Bytes of a row.
    bytes: usize,
    /// From the beginning of one row to that of the next; at least `bytes`.
    stride: usize,
}

impl Shape {
    /// From the first byte of all rows to the last.
    fn extent(self) -> usize {
        if self.rows == 0 { 0 } else { (self.rows - 1) * self.stride + self.bytes }
    }
}

/// The buffers of one side, which hold their memory in place until they are dropped.
struct Side {
    buffers: Vec<PyBuffer<u8>>,
    shape: Shape,
}

impl Side {
    fn take(given: &Bound<'_, PyAny>, name: &str, written: bool) -> PyResult<Self> {
        let py = given.py();
        let items = given.try_iter().map_err(|cause| refuse(given, name, Some(cause)))?;
        let mut side = Self { buffers: Vec::new(), shape: Shape { rows: 0, bytes: 0, stride: 0 } };
        for (index, item) in items.enumerate() {
            let item = item?;
            let name = format!("{name}[{index}]");
            let buffer = PyBuffer::<u8>::get(&item).map_err(|cause| refuse(&item, &name, Some(cause)))?;
            let shape = shape(&buffer).ok_or_else(|| refuse(&item, &name, None))?;
            if written && buffer.readonly() {
                let message = format!("{name} is read-only\nhint: copy into memory that may be written");
                return Err(errors::input_type(py, message));
            }
            if index > 0 && shape != side.shape {
                return Err(unequal(py, &name, shape, side.shape));
            }
            side.shape = shape;
            side.buffers.push(buffer);
        }
        Ok(side)
    }

    fn bases(&self) -> impl Iterator<Item = *mut u8> {
        self.buffers.iter().map(|buffer| buffer.buf_ptr().cast())
    }
}

/// The shape of a buffer, if it is one of rows.
fn shape(buffer: &PyBuffer<u8>) -> Option<Shape> {
    let (&[rows, bytes], &[stride, step]) = (buffer.shape(), buffer.strides()) else { return None };
    if buffer.suboffsets().is_some() {
        return None;
    }
    // Strides say nothing where there is no second row, or no second byte.
    let stride = if rows <= 1 { bytes } else { usize::try_from(stride).ok()? };
    (stride >= bytes && (step == 1 || bytes <= 1)).then_some(Shape { rows, bytes, stride })
}

#[cold]
fn refuse(given: &Bound<'_, PyAny>, name: &str, cause: Option<PyErr>) -> PyErr {
    let py = given.py();
    if let Some(cause) = cause.as_ref().filter(|cause| errors::is_not_of_input(py, cause)) {
        return cause.clone_ref(py);
    }
    let message = format!(
        "{name} is {}; accepted are a list or tuple of buffers of uint8, each with 2 dimensions and the bytes of a row without gaps\n\
         hint: for a tensor pass tensor.view(torch.uint8).numpy(), for an array array.view(numpy.uint8)",
        describe(given)
    );
    let error = errors::input_type(py, message);
    error.set_cause(py, cause);
    error
}

#[cold]
fn unequal(py: Python<'_>, name: &str, shape: Shape, first: Shape) -> PyErr {
    let show = |Shape { rows, bytes, stride }| format!("{rows} rows of {bytes} bytes, {stride} bytes apart");
    let message = format!(
        "{name} has {}; the first has {}\nhint: buffers of other shapes take a call of their own",
        show(shape),
        show(first)
    );
    errors::new(py, Class::InvalidInput, message)
}

/// Checks that each destination has a source, and no memory of it.
fn pair(py: Python<'_>, to: &Side, from: &Side) -> PyResult<()> {
    let (destinations, sources) = (to.buffers.len(), from.buffers.len());
    if destinations != sources {
        let message = format!("{destinations} destinations for {sources} sources\nhint: give one for each");
        return Err(errors::new(py, Class::InvalidInput, message));
    }
    for (index, (to_base, from_base)) in to.bases().zip(from.bases()).enumerate() {
        let (a, b) = (to_base.addr(), from_base.addr());
        let (a_bytes, b_bytes) = (to.shape.extent(), from.shape.extent());
        if a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes {
            let message = format!(
                "destinations[{index}] shares memory with sources[{index}]\nhint: copy by way of a third buffer"
            );
            return Err(errors::new(py, Class::InvalidInput, message));
        }
    }
    Ok(())
}

/// Bytes that follow each other.
struct Run {
    /// Where, from the beginning of a buffer.
    at: usize,
    bytes: usize,
}

/// The runs of the rows listed, each checked to be in the buffer. A row is read once only: what was checked is what is copied.
fn runs(py: Python<'_>, rows: Ints<'_>, role: &Role, shape: Shape) -> PyResult<Vec<Run>> {
    match rows {
        Ints::I32(rows) => runs_of(py, rows, role, shape),
        Ints::U32(rows) => runs_of(py, rows, role, shape),
        Ints::I64(rows) => runs_of(py, rows, role, shape),
    }
}

fn runs_of<T: Copy + Into<i64>>(py: Python<'_>, rows: &[T], role: &Role, shape: Shape) -> PyResult<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, &row) in rows.iter().enumerate() {
        let row = row.into();
        let Some(inside) = usize::try_from(row).ok().filter(|&row| row < shape.rows) else {
            return Err(outside(py, role, index, row, shape));
        };
        let at = inside * shape.stride;
        match runs.last_mut() {
            Some(last) if last.at + last.bytes == at => last.bytes += shape.bytes,
            _ => runs.push(Run { at, bytes: shape.bytes }),
        }
    }
    Ok(runs)
}

#[cold]
fn outside(py: Python<'_>, role: &Role, index: usize, row: i64, shape: Shape) -> PyErr {
    let limit = match shape.rows {
        0 => "the buffer has no rows".to_owned(),
        rows => format!("0 to {}", rows - 1),
    };
    let message = format!(
        "row {row} at index {index} of {} is out of range: {limit}\nhint: pass rows that the buffer has",
        role.name()
    );
    errors::new(py, Class::InvalidInput, message)
}

fn same_bytes(py: Python<'_>, to: &[Run], from: &[Run]) -> PyResult<()> {
    let total = |runs: &[Run]| runs.iter().map(|run| run.bytes as u128).sum::<u128>();
    let (to, from) = (total(to), total(from));
    if to == from {
        return Ok(());
    }
    let message = format!(
        "destination_rows have {to} bytes, source_rows {from}\nhint: list rows of the same number of bytes on both sides"
    );
    Err(errors::new(py, Class::InvalidInput, message))
}

/// Bytes that follow each other on both sides.
struct Piece {
    to: usize,
    from: usize,
    bytes: usize,
}

/// Lays two lists of runs, of the same number of bytes, over each other.
fn overlay(to: Vec<Run>, from: Vec<Run>) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(to.len().max(from.len()));
    let mut sources = from.into_iter();
    let mut source = Run { at: 0, bytes: 0 };
    for mut destination in to {
        while destination.bytes > 0 {
            if source.bytes == 0 {
                source = sources.next().expect("both sides have the same number of bytes");
                continue;
            }
            let bytes = destination.bytes.min(source.bytes);
            pieces.push(Piece { to: destination.at, from: source.at, bytes });
            destination = Run { at: destination.at + bytes, bytes: destination.bytes - bytes };
            source = Run { at: source.at + bytes, bytes: source.bytes - bytes };
        }
    }
    pieces
}

/// Where a pair of buffers begins.
struct Bases {
    to: *mut u8,
    from: *mut u8,
}

// SAFETY: the buffers that these point into are held by the call that copies, which waits for the copy.
unsafe impl Sync for Bases {}

impl Bases {
    fn copy(&self, pieces: &[Piece], streamed: bool) {
        for &Piece { to, from, bytes } in pieces {
            // SAFETY: `runs` has checked that both ranges are inside their buffers, and `pair` that the buffers share no memory; the
            // destination may be written, and bytes need no alignment. Another thread that uses these bytes meanwhile makes the
            // outcome depend on its timing, as with numpy's own functions.
            unsafe {
                let (to, from) = (self.to.add(to), self.from.add(from));
                if streamed { stream::copy(to, from, bytes) } else { std::ptr::copy_nonoverlapping(from, to, bytes) }
            }
        }
        if streamed {
            stream::end();
        }
    }
}
