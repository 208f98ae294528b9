//! Why a store cannot be opened or cleared, or does not take a call.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a store refuses. What befalls one page of a batch is a [`Status`](crate::Status) instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refuses something with a path.
    Io {
        /// What was to be done.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A key that no file can be named after.
    Key {
        /// The place in the batch.
        index: usize,
        /// The key's length in bytes.
        bytes: usize,
        /// What a key may be.
        limit: &'static str,
    },
    /// As many keys as pages are needed.
    Lengths {
        /// Keys that were given.
        keys: usize,
        /// Pages that were given.
        pages: usize,
    },
    /// Options that do not go together.
    Options(&'static str),
}

impl StoreError {
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { verb, path, source } => {
                write!(
                    f,
                    "cannot {verb} {}: {source}\nhint: see its owner, its mode and the room on its disk",
                    path.display()
                )
            }
            Self::Key { index, bytes, limit } => {
                write!(f, "key {index} has {bytes} bytes; {limit}\nhint: isoradix.storage.keys makes keys of 64 bytes")
            }
            Self::Lengths { keys, pages } => {
                write!(f, "{keys} keys for {pages} pages\nhint: give one key for each page")
            }
            Self::Options(what) => write!(f, "{what}\nhint: docs/storage.md lists what goes together"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
