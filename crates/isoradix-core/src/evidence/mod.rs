//! Evidence: what was decided, in a form that two ranks can compare.

mod journal;
mod record;

pub(crate) use journal::Journal;
pub use record::{Record, RecordKind};
