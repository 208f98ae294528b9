//! Many ranks: their agreement at start, boards, votes, frames, and the rank that joins them to a cache.
//!
//! Files, each using only those before it: `refusals`, `mode`; `start`, `control`, `frame`, `effects`, `run_ahead`; `board`, `votes`,
//! `wait`; `rank`; `batch`.

mod batch;
mod board;
mod control;
mod effects;
mod frame;
mod mode;
mod rank;
pub(crate) mod refusals;
mod run_ahead;
mod start;
mod votes;
mod wait;

use pyo3::prelude::*;

pub(crate) use start::Agreement;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    start::register(module)?;
    control::register(module)?;
    frame::register(module)?;
    effects::register(module)?;
    run_ahead::register(module)?;
    board::register(module)?;
    votes::register(module)?;
    wait::register(module)?;
    rank::register(module)?;
    batch::register(module)
}
