//! What a connection between ranks takes and gives at once.
//!
//! Python's own calls on sockets give up the GIL even where there is nothing to wait for, and a thread that computes keeps it for five
//! milliseconds then. These never wait, so they keep it.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{FromRawFd, RawFd};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes;
use crate::scalars::{self, Scalar};

const CONNECTION: Scalar = scalars::up_to("connection", i32::MAX as u64, "pass connection.fileno() of an open socket");
const MOST: Scalar = scalars::within("most", 1, 1 << 20, "pass how many bytes there can be");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_at_once, module)?)?;
    module.add_function(wrap_pyfunction!(write_at_once, module)?)
}

/// Reads what has arrived on a connection, without waiting and without giving up the GIL.
///
/// Args:
///     connection: descriptor of a connected socket, which is made non-blocking.
///     most: bytes to be read at most, 1 to 2**20.
///
/// Returns:
///     The bytes; none if the other end has closed; None if nothing has arrived.
///
/// Raises:
///     OSError: the connection is broken, or there is no socket of that number.
///     InvalidInputError, InputTypeError: a number is out of its range, or no int.
#[pyfunction]
fn read_at_once<'py>(
    connection: &Bound<'py, PyAny>,
    most: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let descriptor = read_descriptor(connection)?;
    let mut data = vec![0; MOST.read_u32(most)? as usize];
    let size = at_once(descriptor, |mut stream| stream.read(&mut data))?;
    Ok(size.map(|size| PyBytes::new(connection.py(), &data[..size])))
}

/// Hands bytes to a connection, without waiting and without giving up the GIL.
///
/// Args:
///     connection: descriptor of a connected socket, which is made non-blocking.
///     data: bytes, or any contiguous buffer of them.
///
/// Returns:
///     How many of them, from the first on, there was room for.
///
/// Raises:
///     OSError: the connection is broken, or there is no socket of that number.
///     InvalidInputError, InputTypeError: the number is out of its range, or an argument has the wrong type.
#[pyfunction]
fn write_at_once(connection: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
    let descriptor = read_descriptor(connection)?;
    let size = bytes::read(data, "data", |data| at_once(descriptor, |mut stream| stream.write(data)))??;
    Ok(size.unwrap_or(0))
}

fn read_descriptor(connection: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    CONNECTION.read_u32(connection).map(u32::cast_signed)
}

/// What `work` does with a socket, or None where it would have to wait.
fn at_once(descriptor: RawFd, work: impl FnOnce(&TcpStream) -> io::Result<usize>) -> io::Result<Option<usize>> {
    // SAFETY: not -1, and lent for this call, in which no Python code runs that could close it; never dropped, so not closed here.
    let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(descriptor) });
    // Asked first, since it tells what is no socket before that is changed.
    if let Some(broken) = stream.take_error()? {
        return Err(broken);
    }
    stream.set_nonblocking(true)?;
    match work(&stream) {
        Ok(size) => Ok(Some(size)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
