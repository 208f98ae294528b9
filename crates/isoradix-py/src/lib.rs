//! The compiled module `isoradix._isoradix`: thin Python classes over `isoradix-core`.
//!
//! Nothing is decided here. Each file binds one noun and has one `register`; a call turns its arguments into core
//! values, enters the core under the object's lock ([`guard`]), leaves it again, and only then makes Python objects,
//! so that no Python code can run while the core is half-way (a user's key function, [`policy`], is the exception, and
//! is watched for re-entry).

// The doc comments of classes and methods are Python docstrings: `help()` shows them, not rustdoc.
#![allow(clippy::doc_markdown)]

mod arrays;
mod budget;
mod bytes;
mod cache;
mod chunking;
mod connection;
mod decisions;
mod errors;
mod events;
mod facts;
mod fork;
mod guard;
mod handles;
mod ints;
mod journal;
mod look;
mod namespace;
mod node;
mod policy;
mod pool;
mod progress;
mod ranks;
mod recording;
mod results;
mod rows;
mod scalars;
mod shared;
mod simulate;
mod storage;
mod stream;
mod tiered;
mod walk;

use pyo3::prelude::*;

/// The compiled part of isoradix. Import from `isoradix`; this module is private.
// Keys are read from memory that other threads may write to when there is no GIL, so the module asks for it.
#[pymodule(gil_used = true)]
fn _isoradix(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Fails here with an ImportError, rather than at the first call that takes or returns an array.
    module.py().import("numpy")?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::register(module)?;
    fork::register(module)?;
    results::register(module)?;
    facts::register(module)?;
    node::register(module)?;
    journal::register(module)?;
    recording::register(module)?;
    events::register(module)?;
    pool::register(module)?;
    cache::register(module)?;
    tiered::register(module)?;
    ranks::register(module)?;
    budget::register(module)?;
    chunking::register(module)?;
    decisions::register(module)?;
    progress::register(module)?;
    rows::register(module)?;
    connection::register(module)?;
    simulate::register(module)?;
    storage::register(module)?;
    // The package says what is public.
    module.delattr("__all__")
}
