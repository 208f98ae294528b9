//! The life of an operation: how backups, load-backs, prefetches and stores go from issue to their end, on all ranks alike.
//!
//! The machine reads Agreed values only, so all ranks take the same step at the same time. What a rank does meanwhile, it
//! does on its own: query, reserve and copy start at issue and report to the ballot; the votes come back in frames and move the
//! operation here; each step says, as [`Action`]s, what is to be done next. `ARCHITECTURE.md` draws the table.
//!
//! Rules that hold for every kind:
//!
//! - Ordinals are handed out in logical order over all kinds. One that lies past the window is declined, on all ranks alike.
//! - A smallest vote of "nothing" does not mean that nobody does anything: some other rank's copy may run. So whatever ends early
//!   *drains*: its pages stay occupied until the agreed finished watermark of its FIFO has passed it.
//! - Operations retire in order; the window slides by what is retired on all ranks.
//! - Within a frame: slots first, then watermarks, then the leader's decisions, then the window.
//!
//! Files, each importing only from those before it: `kind`, `state` (the table), `effects`, `error`, `live` (one operation),
//! `agreed`, `table` (all of them), `frame` (what a frame does to them), `markdown`.

mod agreed;
mod effects;
mod error;
mod frame;
mod kind;
mod live;
mod markdown;
mod state;
mod table;

#[cfg(test)]
mod tests;

pub use agreed::AgreedEvent;
pub use effects::Action;
pub use error::{Declined, OperationError};
pub use kind::{Kind, Pools, Share, Subject};
pub use live::Operation;
pub use markdown::table_markdown;
pub use state::{Effect, Event, State, TABLE, Transition, transition};
pub use table::OperationTable;
