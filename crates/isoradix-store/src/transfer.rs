//! One page to its file, and back.
//!
//! Bytes are moved in chunks that stay in a core's cache: what was read is checked before it has left it, and what is written
//! was hashed just before, so the checksum costs no second way to memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::aligned::{ALIGN, Aligned};
use crate::call::Call;
use crate::page::{PageMut, PageRef};
use crate::seal::{SEAL_BYTES, Seal};
use crate::status::Status;

/// Bytes of a chunk: half of a core's own cache, or less.
const CHUNK: usize = 256 << 10;

/// The flag of `open` for I/O that goes around the system's cache.
#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: i32 = 0x1_0000;
#[cfg(all(target_os = "linux", not(any(target_arch = "aarch64", target_arch = "arm"))))]
const O_DIRECT: i32 = 0x4000;
/// Elsewhere there is none, and the system's cache is used.
#[cfg(not(target_os = "linux"))]
const O_DIRECT: i32 = 0;

/// How pages are moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    /// Around the system's cache.
    pub(crate) direct: bool,
    /// Whether a seal stands behind a page.
    pub(crate) sealed: bool,
}

impl Mode {
    /// Bytes of the file of a page with so many.
    pub(crate) fn file_bytes(self, page: u64) -> u64 {
        page + if self.sealed { SEAL_BYTES as u64 } else { 0 }
    }

    /// Reads a page and checks it.
    pub(crate) fn read(self, path: &Path, key: &[u8], page: PageMut<'_>, call: &Call) -> io::Result<Status> {
        let file = match OpenOptions::new().read(true).custom_flags(self.flags()).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Status::Missing),
            Err(error) => return Err(error),
        };
        let bytes = page.bytes();
        if file.metadata()?.len() != self.file_bytes(bytes) {
            return Ok(Status::WrongSize);
        }
        let mut source = Source::new(file, self.direct);
        let mut seal = Seal::new();
        for mut chunk in page.chunks(CHUNK) {
            if call.is_cancelled() {
                return Ok(Status::Late);
            }
            match source.read_exact(&mut chunk, |bytes| {
                if self.sealed {
                    seal.update(bytes);
                }
            }) {
                Ok(()) => {}
                // Somebody is cutting it: a page never changes its size.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Status::Corrupt),
                Err(error) => return Err(error),
            }
        }
        if !self.sealed {
            return Ok(Status::Done);
        }
        let (mut found, right) = ([0; SEAL_BYTES], seal.close(key));
        match source.read_exact(&mut [IoSliceMut::new(&mut found)], |_| {}) {
            Ok(()) if found == right => Ok(Status::Done),
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(Status::Corrupt),
        }
    }

    /// Writes a page to a new file, which is removed if that fails.
    pub(crate) fn write(self, path: &Path, key: &[u8], page: &PageRef<'_>, call: &Call) -> io::Result<Status> {
        let file = OpenOptions::new().write(true).create_new(true).custom_flags(self.flags()).open(path)?;
        let written = self.write_all(file, key, page, call);
        if !matches!(written, Ok(Status::Done)) {
            let _ = fs::remove_file(path);
        }
        written
    }

    fn write_all(self, file: File, key: &[u8], page: &PageRef<'_>, call: &Call) -> io::Result<Status> {
        let mut sink = Sink::new(file, self.direct);
        let mut seal = Seal::new();
        for mut chunk in page.chunks(CHUNK) {
            if call.is_cancelled() {
                return Ok(Status::Late);
            }
            if self.sealed {
                for slice in &chunk {
                    seal.update(slice);
                }
            }
            sink.write_all(&mut chunk)?;
        }
        if self.sealed {
            sink.write_all(&mut [IoSlice::new(&seal.close(key))])?;
        }
        sink.end(self.file_bytes(page.bytes()))?;
        Ok(Status::Done)
    }

    fn flags(self) -> i32 {
        if self.direct { O_DIRECT } else { 0 }
    }
}

/// Whether the file system of a folder takes direct I/O.
pub(crate) fn takes_direct(folder: &Path) -> bool {
    let path = folder.join(format!("direct-{}", std::process::id()));
    let mut memory = Aligned::new(ALIGN);
    let tried = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(O_DIRECT).open(&path);
    let written = tried.and_then(|mut file| file.write_all(memory.bytes()));
    let _ = fs::remove_file(&path);
    O_DIRECT != 0 && written.is_ok()
}

/// A file that is read from its beginning to its end.
struct Source {
    file: File,
    /// Of direct I/O: what was read, and from where to where it is not taken yet.
    staged: Option<(Aligned, usize, usize)>,
}

impl Source {
    fn new(file: File, direct: bool) -> Self {
        Self { file, staged: direct.then(|| (Aligned::new(CHUNK), 0, 0)) }
    }

    /// Fills the slices, and shows `see` all bytes in order.
    fn read_exact(&mut self, slices: &mut [IoSliceMut<'_>], mut see: impl FnMut(&[u8])) -> io::Result<()> {
        match &mut self.staged {
            None => read_vectored_exact(&mut self.file, slices, see),
            Some(staged) => slices.iter_mut().try_for_each(|slice| {
                read_staged(&mut self.file, staged, slice)?;
                see(slice);
                Ok(())
            }),
        }
    }
}

fn read_vectored_exact(
    file: &mut File,
    mut slices: &mut [IoSliceMut<'_>],
    mut see: impl FnMut(&[u8]),
) -> io::Result<()> {
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.read_vectored(slices) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(size) => {
                let mut left = size;
                for slice in slices.iter() {
                    let now = left.min(slice.len());
                    see(&slice[..now]);
                    left -= now;
                }
                IoSliceMut::advance_slices(&mut slices, size);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_staged(file: &mut File, staged: &mut (Aligned, usize, usize), mut out: &mut [u8]) -> io::Result<()> {
    let (memory, from, to) = staged;
    while !out.is_empty() {
        if from == to {
            (*from, *to) = (0, file.read(memory.bytes())?);
            if *to == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let size = out.len().min(*to - *from);
        let (now, later) = out.split_at_mut(size);
        now.copy_from_slice(&memory.bytes()[*from..*from + size]);
        (*from, out) = (*from + size, later);
    }
    Ok(())
}

/// A file that is written from its beginning to its end.
struct Sink {
    file: File,
    /// Of direct I/O: what is not written yet, and how much of it there is.
    staged: Option<(Aligned, usize)>,
}

impl Sink {
    fn new(file: File, direct: bool) -> Self {
        Self { file, staged: direct.then(|| (Aligned::new(CHUNK), 0)) }
    }

    fn write_all(&mut self, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        match &mut self.staged {
            None => write_vectored_all(&mut self.file, slices),
            Some(staged) => slices.iter().try_for_each(|slice| write_staged(&mut self.file, staged, slice)),
        }
    }

    /// Writes what is staged, as whole blocks, and cuts the file to its size.
    fn end(&mut self, bytes: u64) -> io::Result<()> {
        if let Some((memory, held)) = &mut self.staged {
            let blocks = held.next_multiple_of(ALIGN);
            memory.bytes()[*held..blocks].fill(0);
            self.file.write_all(&memory.bytes()[..blocks])?;
            self.file.set_len(bytes)?;
        }
        Ok(())
    }
}

fn write_vectored_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(size) => IoSlice::advance_slices(&mut slices, size),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_staged(file: &mut File, staged: &mut (Aligned, usize), mut bytes: &[u8]) -> io::Result<()> {
    let (memory, held) = staged;
    while !bytes.is_empty() {
        let size = bytes.len().min(CHUNK - *held);
        memory.bytes()[*held..*held + size].copy_from_slice(&bytes[..size]);
        (*held, bytes) = (*held + size, &bytes[size..]);
        if *held == CHUNK {
            file.write_all(memory.bytes())?;
            *held = 0;
        }
    }
    Ok(())
}
