//! Standard output.

use std::io::{self, ErrorKind, StdoutLock, Write};

/// Standard output, locked. Once its reader has gone, as `head` does, the rest is dropped.
#[derive(Debug)]
pub(crate) struct Output {
    /// None once there is no reader.
    out: Option<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { out: Some(io::stdout().lock()) }
    }

    fn or_dropped<T>(
        &mut self,
        dropped: T,
        write: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(out) = &mut self.out else { return Ok(dropped) };
        match write(out) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.out = None;
                Ok(dropped)
            }
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.or_dropped(bytes.len(), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.or_dropped((), Write::flush)
    }
}
